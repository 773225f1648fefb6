"""Exact Bayesian posteriors from millions of rows."""
