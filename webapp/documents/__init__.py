"""Documents in, changed, out of the corpus that answers."""
