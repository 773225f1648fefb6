"""Benchmarks: `make bench` prints every table, `python -m benchmarks passes` one of them."""
