"""Tables of PDFs: stated by tags, or found by what is drawn."""
