"""Where files of records lie, and the lock on them."""
