"""Django's administration: everything is visible, only what is meant to be changed can be changed."""

from webapp.admin import answers, audited, records

__all__ = ["answers", "audited", "records"]
