"""Models: a log-likelihood over rows and a log prior."""
