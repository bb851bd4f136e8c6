"""Deployments: the model and the index that answer."""
