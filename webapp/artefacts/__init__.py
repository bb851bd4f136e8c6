"""Corpora, models and indexes: recording, lists, retention, removal."""
