"""What cannot be done, told apart by what the caller can do about it; every door tells it in its own way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FieldError:
    """What is wrong with one field, in a sentence."""

    field: str
    detail: str


class InvalidRequest(Exception):
    """What was asked cannot be asked that way."""

    def __init__(self, *errors: FieldError) -> None:
        super().__init__(" ".join(error.detail for error in errors))
        self.errors = errors


class StateConflict(Exception):
    """What cannot be done as things stand. retry_after_s: when it may be possible; None: not by waiting."""

    retry_after_s: int | None = None

    def members(self) -> dict[str, Any]:
        """What the problem details say beyond the sentence."""
        return {}
