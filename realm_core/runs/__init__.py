"""Child processes: how they are started, locked, watched, stopped and reported. Imports neither torch nor Django."""
