"""Gaussian outcomes: sums of squares and products are all that the rows have to say, so draws touch no row at all."""
