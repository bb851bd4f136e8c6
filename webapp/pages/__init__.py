"""What the pages of every subject share: guards, errors, uploads, drawings."""
