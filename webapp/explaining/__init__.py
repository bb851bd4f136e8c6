"""Explanations of wrong answers."""
