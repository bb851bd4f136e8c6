"""Evaluations of models, and their comparison."""
