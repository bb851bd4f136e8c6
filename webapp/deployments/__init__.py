"""Which model and index answer."""
