"""Benchmarks: ratios against peers, measured in one run. `make bench` runs them all."""
