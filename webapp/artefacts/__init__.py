"""Corpora, models and indexes: recorded, listed, retained, removed."""
