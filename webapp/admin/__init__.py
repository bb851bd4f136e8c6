"""Django's administration: everything is visible, only what is meant to be changed can be changed."""

from webapp.admin import answers, artefacts, audited, jobs, people

__all__ = ["answers", "artefacts", "audited", "jobs", "people"]
