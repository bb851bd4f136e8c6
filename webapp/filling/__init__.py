"""Masked sentences and their fillings."""
