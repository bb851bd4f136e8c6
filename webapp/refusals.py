"""Exceptions for refused requests; pages, REST and MCP each report them in their own form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from realm_core.errors import RealmError


@dataclass(frozen=True)
class FieldError:
    """A wrong field, and why, in a sentence."""

    field: str
    detail: str


def too_long(field: str, what: str, text: str, most: int) -> FieldError:
    """The error of a text with more than `most` characters. what: such as “A question”."""
    return FieldError(field, f"{what} may have at most {most} characters; this one has {len(text)}.")


class InvalidRequest(Exception):
    """The request is not valid."""

    def __init__(self, *errors: FieldError) -> None:
        super().__init__(" ".join(error.detail for error in errors))
        self.errors = errors


class Missing(RealmError):
    """What the request names does not exist (404 in REST)."""


class StateConflict(Exception):
    """The request conflicts with the present state (409 in REST).

    retry_after_s: seconds after which it may be possible; None: waiting does not help. members: of the problem details
    besides the standard ones.
    """

    retry_after_s: int | None = None

    def __init__(self, detail: str, **members: Any) -> None:
        super().__init__(detail)
        self.members = members


class PreconditionFailed(StateConflict):
    """The present state is not the one that the request was made for (412 in REST)."""


# Each says in a sentence why a request is refused.
REFUSALS: Final = (RealmError, InvalidRequest, StateConflict)
