"""Files that corpora are made of, sent by an operator."""
