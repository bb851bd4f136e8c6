"""What askers say of answers, and what curators make of it."""
