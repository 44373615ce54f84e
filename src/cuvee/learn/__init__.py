"""Learn the model map α → w*(α) from solved mixtures, and bound the error of predictions."""
