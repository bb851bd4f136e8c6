"""Permissions and rate limits."""
