"""Uploaded files, limited to the size that is shown beside the field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django import forms

_AROUND_BYTES: Final = 2**20  # the other parts of the request's body


class FileField(forms.FileField):
    """A file of at most `largest_bytes`.

    instead: the alternative for a larger one, a clause after “at most 64 MB;”.
    """

    def __init__(self, *, largest_bytes: int, instead: Callable[[], str], help_text: str) -> None:
        self.largest_bytes, self._instead = largest_bytes, instead
        super().__init__(help_text=f"{help_text} At most {self._largest}.")

    @property
    def body_bytes(self) -> int:
        """The largest body of a request with such a file."""
        return self.largest_bytes + _AROUND_BYTES

    def clean(self, data: Any, initial: Any = None) -> Any:
        """The file; ValidationError if it is missing, empty or too large."""
        file = super().clean(data, initial)
        if file is not None and (file.size or 0) > self.largest_bytes:
            raise forms.ValidationError(f"A file may have at most {self._largest}; {self._instead()}.")
        return file

    @property
    def _largest(self) -> str:
        return f"{self.largest_bytes // 2**20} MB"
