"""Collections of documents: what is in them, who may read them, how much they count."""
