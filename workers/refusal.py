"""Shared by all modules that may refuse to start; it must parse under any Python 3."""

from pathlib import Path

TOP = Path(__file__).resolve().parent.parent  # the checkout


class Refusal(Exception):
    """A sentence that says what prevents the start, and what to do about it."""
