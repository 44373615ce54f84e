"""What leaves the library: files, progress, tables in notebooks, text made safe to show."""
