"""Files that a browser sends: no larger than is said beside the field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django import forms

_AROUND_BYTES: Final = 2**20  # what surrounds a file in the body of a request


class FileField(forms.FileField):
    """A file of at most `largest_bytes`.

    instead: what can be done with a larger one, a clause behind “at most 64 MB;”.
    """

    def __init__(self, *, largest_bytes: int, instead: Callable[[], str], help_text: str) -> None:
        self.largest_bytes, self._instead = largest_bytes, instead
        super().__init__(help_text=f"{help_text} At most {self._largest}.")

    @property
    def body_bytes(self) -> int:
        """Of a request with such a file, at most."""
        return self.largest_bytes + _AROUND_BYTES

    def clean(self, data: Any, initial: Any = None) -> Any:
        """The file; ValidationError where there is none, an empty one, or one that is too large."""
        file = super().clean(data, initial)
        if file is not None and (file.size or 0) > self.largest_bytes:
            raise forms.ValidationError(f"A file may have at most {self._largest}; {self._instead()}.")
        return file

    @property
    def _largest(self) -> str:
        return f"{self.largest_bytes // 2**20} MB"
