"""Shared by everything that may refuse to start; it must parse under any Python 3."""

from pathlib import Path

TOP = Path(__file__).resolve().parent.parent  # the checkout


class Refusal(Exception):
    """A sentence that says what stands in the way and what to do about it."""
