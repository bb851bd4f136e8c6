"""The PDFs that documents were read from: kept, shown at a page, removed."""
