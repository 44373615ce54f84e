"""What a run found, on one page that opens offline."""
