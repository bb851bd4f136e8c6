"""The kinds of job: what each needs, in one place for forms, REST API, pages and workers."""

from webapp.kinds.base import Given, Input, Kind, ParameterError
from webapp.kinds.catalogue import KINDS, kind_of

__all__ = ["KINDS", "Given", "Input", "Kind", "ParameterError", "kind_of"]
