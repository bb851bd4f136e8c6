"""Question sets, to learn from and to measure by."""
