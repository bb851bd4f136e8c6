"""Jobs: kinds, forms, starting, following, stopping, resuming."""
