"""Forms of documents: the source, one of three, and the metadata."""

from __future__ import annotations

from typing import Any, Final, Literal

from django import forms
from django.conf import settings

from realm_core.corpus.records import LONGEST_ATTRIBUTION, LONGEST_COLLECTION, LONGEST_LANGUAGE, LONGEST_LICENCE
from webapp.collections.service import known_now
from webapp.documents import fetching
from webapp.documents.inputs import (
    LARGEST_FILE_BYTES,
    LONGEST_TITLE,
    LONGEST_URL,
    Address,
    DocumentInput,
    File,
    Source,
    Staged,
    Text,
)
from webapp.documents.versions import Versions, only
from webapp.documents.viewing import ShownDocument
from webapp.pages.uploads import MOST_FILES, FileField, FilesField
from webapp.text import one_line

LICENCES: Final = ("CC BY-SA 4.0", "CC BY 4.0", "CC0 1.0", "Public domain", "All rights reserved", "Internal use only")
_LONGEST_TAGS: Final = 1000
_AROUND_BYTES: Final = 64 << 10  # the other fields, each of which is short
_MOST_TEXT_BYTES: Final = settings.DATA_UPLOAD_MAX_MEMORY_SIZE - _AROUND_BYTES
_TEXT: Final = {"rows": 12, "dir": "auto", "data-most-bytes": _MOST_TEXT_BYTES}  # `console.js` keeps to it
_LONGER: Final = f"At most {_MOST_TEXT_BYTES >> 10} KB: upload a longer text as a file."
# Names of files whose rows can each state a licence. `console.js` asks for one before any other is sent.
_OWN_LICENCE: Final = r"\.(jsonl?|ndjson|parquet)(\.(bz2|gz|xz))?$"
_FORMATS: Final = "Text, Markdown, HTML, CSV, TSV, PDF, Word (DOCX), JSON lines, Parquet or a MediaWiki dump."


class DocumentForm(forms.Form):
    """The fields that all sources share. Each subclass adds a field for the source."""

    title = forms.CharField(
        max_length=LONGEST_TITLE, required=False, help_text="Empty: what the source says itself, or its first heading."
    )
    licence = forms.CharField(
        max_length=LONGEST_LICENCE,
        help_text="What others may do with the text. It is shown wherever a passage is.",
        widget=forms.TextInput(attrs={"list": "licences"}),
    )
    attribution = forms.CharField(max_length=LONGEST_ATTRIBUTION, required=False, help_text="Whom the text is by.")
    url = forms.URLField(
        label="Address of the original",
        max_length=LONGEST_URL,
        required=False,
        assume_scheme="https",
        help_text="Where readers are sent to read on.",
    )
    language = forms.CharField(
        max_length=LONGEST_LANGUAGE,
        required=False,
        help_text="A code such as en. Empty: what the source says, or what its text tells.",
    )
    date = forms.DateField(
        required=False,
        help_text="The document’s own.",
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
    )
    tags = forms.CharField(max_length=_LONGEST_TAGS, required=False, help_text="Separated by commas.")
    collection = forms.ChoiceField(
        required=False,
        help_text="Questions can be kept to it. Who reads it is said behind its name.",
        widget=forms.Select(attrs={"dir": "auto"}),
    )
    new_collection = forms.CharField(
        label="Or a new collection",
        max_length=LONGEST_COLLECTION,
        required=False,
        help_text="Everybody who may ask reads a new one. Set a private one up under Collections first.",
    )
    version = forms.CharField(required=False, widget=forms.HiddenInput)  # of the document that is to be changed
    more_readers = forms.BooleanField(required=False, widget=forms.HiddenInput)  # asked on the page of the preview

    # Fields that are seldom needed, folded away together.
    further: tuple[str, ...] = ("url", "language", "date", "tags", "collection", "new_collection")
    may_state_collection = True  # whether the source, such as a row of a file, may name the collection

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.known = known_now()
        choices = [(name, f"{name} – read by {readers}") for name, readers in self.known.readers.items()]
        own = self.known.own
        if self.may_state_collection or not own:
            choices.insert(0, ("", f"As the source says, or else {own}" if own else "The corpus’s own"))
        self.fields["collection"].choices = choices  # type: ignore[attr-defined]
        wanted = self.initial.get("collection") or ("" if self.may_state_collection else own)
        if wanted and wanted not in self.known.readers:  # of the page of one that nothing is recorded of yet
            self.initial["new_collection"], wanted = wanted, ""
        self.initial["collection"] = wanted

    @property
    def sources(self) -> list[Source]:
        """The sources in a valid form, mostly one; each subclass has its own."""
        raise NotImplementedError

    @property
    def main_fields(self) -> list[forms.BoundField]:
        """The fields that are always shown."""
        return [field for field in self.visible_fields() if field.name not in self.further]

    @property
    def further_fields(self) -> list[forms.BoundField]:
        """The fields that are folded away."""
        return [self[name] for name in self.further if name in self.fields]

    @property
    def further_open(self) -> bool:
        """Whether the folded fields are open: if one was filled in or is wrong."""
        usual = (None, "", self.known.own)
        return any(field.value() not in usual or field.errors for field in self.further_fields)

    def clean(self) -> dict[str, Any]:
        """A new collection is none of those that there are."""
        known: dict[str, Any] = self.cleaned_data
        new = one_line(known.get("new_collection", ""))
        if new and (named := self.known.called(new)) in self.known.readers:
            self.add_error("new_collection", f"There is a collection “{named}” already: choose it above.")
        return known

    @property
    def versions(self) -> Versions:
        """What a valid form says of the document that is to be changed."""
        return only(self.cleaned_data["version"])

    def documents(self, document_id: str = "") -> list[DocumentInput]:
        """The documents in a valid form. document_id: of the document that the only one replaces."""
        known: dict[str, Any] = self.cleaned_data
        blank: Literal[""] | None = "" if document_id else None  # an emptied field of a change is one that was given
        tags = tuple(tag for one in known["tags"].split(",") if (tag := one.strip()))
        return [
            DocumentInput(
                source,
                document_id=document_id,
                title=known["title"],
                url=known.get("url"),
                licence=known["licence"] or blank,
                attribution=known["attribution"] or blank,
                language=known["language"],
                date=known["date"] or blank,
                tags=tags if tags or document_id else None,
                collection=known["new_collection"] or known["collection"],
                new_collection=bool(known["new_collection"]),
                more_readers=known["more_readers"],
                licence_needed=True,
            )
            for source in self.sources
        ]


class TextForm(DocumentForm):
    """A pasted text."""

    field_order = ("title", "text")
    may_state_collection = False

    title = forms.CharField(max_length=LONGEST_TITLE)
    text = forms.CharField(
        widget=forms.Textarea(attrs=_TEXT),
        help_text="Each line is a paragraph, each row of a pasted table a sentence. For headings, upload Markdown. "
        f"{_LONGER}",
        strip=False,  # a tab at its beginning is a blank cell
    )

    @property
    def sources(self) -> list[Source]:
        return [Text(self.cleaned_data["text"])]


class ChangedTextForm(TextForm):
    """The text of a document that is to be changed."""

    text = forms.CharField(
        widget=forms.Textarea(attrs=_TEXT),
        help_text="Each line is a paragraph, each row of a pasted table a sentence. A line that is a heading stays "
        "one; for more of them, upload Markdown. Pages and a kept PDF stay only if you leave the text as it is. "
        f"{_LONGER}",
        strip=False,
    )


class FileForm(DocumentForm):
    """An uploaded file: the one that is chosen, or else what a form that was refused has brought (`held`).

    A browser does not put files back into a form, so they are held here until it is corrected, for an hour.
    """

    field_order = ("file",)

    staged = forms.Field(required=False, widget=forms.MultipleHiddenInput)  # their ids

    file = FileField(
        largest_bytes=LARGEST_FILE_BYTES,
        instead=lambda: "split it, or ingest it as a corpus",
        help_text=_FORMATS,
    )

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        staged = self["staged"].value() or []
        self.held = fetching.held([staged] if isinstance(staged, str) else staged)
        self.fields["file"].required = not self.held
        self.fields["licence"].required = False
        self.fields["file"].widget.attrs["data-own-licence"] = _OWN_LICENCE
        self.fields["licence"].help_text += " It is needed, unless every row of JSON lines or Parquet has its own."

    @property
    def sources(self) -> list[Source]:
        given = self.cleaned_data["file"]
        chosen = given if isinstance(given, list) else [given] if given else []
        return [File.of(file) for file in chosen] or [Staged(fetch_id) for fetch_id in self.held]


class FilesForm(FileForm):
    """Uploaded files, of which each is a document, or holds many."""

    file = FilesField(
        label="Files",
        largest_bytes=LARGEST_FILE_BYTES,
        instead=lambda: "split it, or ingest it as a corpus",
        help_text=f"Choose one or more, up to {MOST_FILES}. {_FORMATS}",
    )

    def clean(self) -> dict[str, Any]:
        """Title and address are for a single file."""
        known = super().clean()
        if len(known.get("file", ()) or self.held) > 1:
            for name in ("title", "url"):
                if known.get(name):
                    self.add_error(name, "This is for a single file: leave it empty for several.")
        return known


class AddressForm(DocumentForm):
    """An address, which a worker fetches."""

    field_order = ("address",)
    further = ("language", "date", "tags", "collection", "new_collection")  # the address itself is the original's
    url = None  # type: ignore[assignment]  # as Django has it: the field is not inherited

    address = forms.URLField(
        max_length=LONGEST_URL,
        assume_scheme="https",
        help_text="Of a page or a file on the web; it is fetched now, once.",
        widget=forms.URLInput(attrs={"placeholder": "https://"}),
    )

    @property
    def sources(self) -> list[Source]:
        return [Address(self.cleaned_data["address"])]


class StagedForm(DocumentForm):
    """A staged source, hidden on the page of the preview."""

    staged = forms.UUIDField()

    @property
    def sources(self) -> list[Source]:
        return [Staged(self.cleaned_data["staged"])]


# By `from` in the page's address: the name of the tab, and its form.
ADDING: Final[dict[str, tuple[str, type[DocumentForm]]]] = {
    "text": ("Paste text", TextForm),
    "file": ("Upload files", FilesForm),
    "address": ("From an address", AddressForm),
}
CHANGING: Final = ADDING | {"text": ("Paste text", ChangedTextForm), "file": ("Upload a file", FileForm)}


def initial(shown: ShownDocument) -> dict[str, Any]:
    """The initial values of the form that changes a document."""
    return {
        "title": shown.title,
        "text": shown.text,
        "licence": shown.about.licence,
        "attribution": shown.about.attribution,
        "url": shown.url,
        "address": shown.url,
        "language": shown.about.language,
        "date": shown.about.date,
        "tags": ", ".join(shown.about.tags),
        "collection": shown.about.collection,
        "version": shown.version,
    }
