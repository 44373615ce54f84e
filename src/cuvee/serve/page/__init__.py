"""Files of the page that `cuvee serve` shows."""
