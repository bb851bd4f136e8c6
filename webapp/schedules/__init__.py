"""Automatic rebuilds."""
