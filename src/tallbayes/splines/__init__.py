"""Splines: Bayesian MARS, sums of products of hinges whose number and knots are sampled too."""
