"""The engine of a web process: loading, following the active deployment, reporting."""
