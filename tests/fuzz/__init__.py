"""Hostile files against every reader: `python -m tests.fuzz`, and a quick test of each in the suite."""
