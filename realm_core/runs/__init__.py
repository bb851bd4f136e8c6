"""Child processes: starting, locking, watching, stopping and reporting. Imports neither torch nor Django."""
