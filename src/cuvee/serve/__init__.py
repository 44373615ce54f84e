"""A finished run behind HTTP: `cuvee serve RUN`; needs the extra `cuvee[serve]`."""
