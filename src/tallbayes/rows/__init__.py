"""Rows: the one door to the data, and all that happens behind it."""
