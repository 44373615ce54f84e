"""Networks, trained together."""
