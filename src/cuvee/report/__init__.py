"""Write what a run found on one HTML page that opens offline."""
