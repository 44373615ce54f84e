"""Write what leaves the library: files, progress, notebook tables, text made safe to show."""
