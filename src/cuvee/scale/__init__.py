"""Rows beyond one machine: other engines behind the same components, which no algorithm notices."""
