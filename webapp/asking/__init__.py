"""Questions and their answers: asked, kept, shown, forgotten."""
