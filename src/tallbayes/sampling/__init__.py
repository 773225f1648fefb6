"""Sampling: kernels, what they are made of, the methods that choose them, and the one loop that runs them."""
