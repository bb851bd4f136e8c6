"""Django's administration: everything can be looked at, only what is meant to change can be changed."""

from webapp.admin import answers, artefacts, audited, jobs, people

__all__ = ["answers", "artefacts", "audited", "jobs", "people"]
