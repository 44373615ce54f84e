"""Any smooth convex risk."""
