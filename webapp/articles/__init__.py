"""Blocks and articles of the corpora, to read."""
