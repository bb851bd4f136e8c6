"""Feedback of askers on answers, and its review by curators."""
