"""What was measured of models, and their comparison."""
