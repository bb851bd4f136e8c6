"""Purges: documents forgotten for good, with a receipt."""
