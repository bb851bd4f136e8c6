"""The engine of a web process: loaded, kept in step with the active deployment, reported."""
