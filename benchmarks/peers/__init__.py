"""tallbayes beside its peers on the same rows: `make bench-peers`; with Dask, `python -m benchmarks.peers.cluster`."""
