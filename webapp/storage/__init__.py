"""Where the files of records are, and the lock on them."""
