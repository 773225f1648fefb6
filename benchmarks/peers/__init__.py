"""tallbayes beside its peers on the same rows: `make bench-peers`."""
