"""Learning the model map α → w*(α) from solved mixtures, and saying how far each prediction can be
trusted.
"""
