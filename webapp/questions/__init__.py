"""Question sets, to train on and to measure by."""
