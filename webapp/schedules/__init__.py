"""Rebuilds that begin by themselves."""
