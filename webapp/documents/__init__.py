"""Documents of the corpus that answers: added, changed and removed, and what each change touched."""
