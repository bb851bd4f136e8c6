"""Masked sentences and what fills them."""
