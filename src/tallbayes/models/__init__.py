"""Models: the generalised linear model, its priors, and the mode of its posterior."""
