"""Jobs: kinds, forms, start, follow, stop, resume."""
