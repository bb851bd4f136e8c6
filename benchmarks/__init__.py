"""Measurements: `make bench`, or `python -m benchmarks.run`. See README.md beside this file."""
