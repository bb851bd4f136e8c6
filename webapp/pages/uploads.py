"""Uploaded files, limited to the size that is shown beside the field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django import forms

MOST_FILES: Final = 100  # in one field


class FileField(forms.FileField):
    """A file of at most `largest_bytes`.

    instead: the alternative for a larger one, a clause after “at most 64 MB;”.
    """

    _of_what = ""

    def __init__(
        self,
        *,
        largest_bytes: int,
        instead: Callable[[], str],
        help_text: str,
        label: str | None = None,
        required: bool = True,
    ) -> None:
        self.largest_bytes, self._instead = largest_bytes, instead
        super().__init__(
            label=label, required=required, help_text=f"{help_text} At most {self._largest}{self._of_what}."
        )

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        """Those by which `console.js` keeps what is too large from being sent."""
        return {**super().widget_attrs(widget), "data-most-bytes": self.largest_bytes}

    def clean(self, data: Any, initial: Any = None) -> Any:
        """The file; ValidationError if it is missing, empty or too large."""
        file = super().clean(data, initial)
        if file is not None and (file.size or 0) > self.largest_bytes:
            raise forms.ValidationError(f"A file may have at most {self._largest}; {self._instead()}.")
        return file

    @property
    def _largest(self) -> str:
        return f"{self.largest_bytes // 2**20} MB"


class FilesInput(forms.FileInput):
    """Takes several files."""

    allow_multiple_selected = True


class FilesField(FileField):
    """One or more files, at most `MOST_FILES` and of at most `largest_bytes` together; its value is a list of them.

    Empty ones are among them: who reads the files names each that cannot be read.
    """

    widget = FilesInput
    _of_what = " together"

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.allow_empty_file = True

    def clean(self, data: Any, initial: Any = None) -> Any:
        """The files; ValidationError if there is none but one is needed, or if they are too many or too large."""
        files, errors = [], []
        for file in data or [None]:
            try:
                cleaned = super().clean(file, initial)
            except forms.ValidationError as error:
                errors += [f"{file.name}: {message}" for message in error.messages] if file else error.messages
            else:
                files += [] if cleaned is None else [cleaned]
        if len(files) + len(errors) > MOST_FILES:
            errors = [f"At most {MOST_FILES} files at once, not {len(data):,}."]
        elif not errors and sum(file.size or 0 for file in files) > self.largest_bytes:
            errors.append(f"The files may have at most {self._largest} together; give fewer at once.")
        if errors:
            raise forms.ValidationError(errors)
        return files
