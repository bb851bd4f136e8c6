"""Articles about countries, made of the fields of The World Factbook."""
