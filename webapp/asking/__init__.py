"""Questions and their answers: asking, storing, showing, forgetting."""
