"""Source files of corpora, provided by an operator."""
