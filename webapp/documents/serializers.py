"""Documents in the API."""

from __future__ import annotations

from typing import Any, Final

from rest_framework import serializers

from realm_core.corpus.records import LONGEST_ATTRIBUTION, LONGEST_COLLECTION, LONGEST_ID, LONGEST_LICENCE
from webapp.documents.inputs import (
    LARGEST_FILE_BYTES,
    LONGEST_TITLE,
    MOST_DOCUMENTS,
    Address,
    DocumentInput,
    File,
    OwnText,
    Source,
    Text,
)
from webapp.ledger.anew import MOST_ANEW
from webapp.ledger.api import OutcomesSerializer, SummarySerializer, TouchedAnswerSerializer, WithoutSerializer
from webapp.models import DocumentStatus
from webapp.pages.uploads import MOST_FILES
from webapp.rest.serializers import StrictBooleanField, StrictCharField, StrictSerializer

_FILES_MB: Final = LARGEST_FILE_BYTES >> 20
_SOURCES: Final = ("text", "address", "file")


class DayOrNoneField(serializers.DateField):
    """A day; empty: none."""

    allow_blank = True  # so that an empty field of a form is not taken for one that was not given

    def to_internal_value(self, value: Any) -> Any:
        return "" if value == "" else super().to_internal_value(value)


def _optional(help_text: str) -> StrictCharField:
    """A text; None if it is not given."""
    return StrictCharField(default=None, allow_null=True, allow_blank=True, help_text=help_text)


class AboutSerializer(StrictSerializer):
    """A document's metadata. A change keeps what is not given; empty (`""`, `[]`): there is none."""

    title = StrictCharField(
        default="", allow_blank=True, help_text=f"At most {LONGEST_TITLE} characters; needed with `text`."
    )
    url = _optional("The source, linked from evidence.")
    licence = _optional(
        f"At most {LONGEST_LICENCE} characters; of a new document, if not given, what a row of the file states, or it "
        "is not stated."
    )
    attribution = _optional(
        f"Whom the text is by. At most {LONGEST_ATTRIBUTION} characters; if not given, as for the licence."
    )
    language = _optional(
        "A code such as en; of a new document, if not given, what its source says, or what its text tells, or else the "
        "corpus's."
    )
    date = DayOrNoneField(default=None, allow_null=True, help_text="The document's own, such as 2026-01-31.")
    tags = serializers.ListField(child=StrictCharField(), default=None, allow_null=True)
    collection = _optional(
        f"At most {LONGEST_COLLECTION} characters. If not given: that of the document that is changed; of a new one, "
        "the corpus's own, which is called as the corpus is. Case and blanks make no other collection."
    )
    new_collection = StrictBooleanField(
        default=False,
        help_text="Whether a `collection` that is not there may be made, which everybody reads. Where some "
        "collection is private, it is refused otherwise (409).",
    )
    more_readers = StrictBooleanField(
        default=False,
        help_text="Whether the document may leave a private collection for one that more may read; it is refused "
        "otherwise (409).",
    )


class RestoredDocumentSerializer(StrictSerializer):
    """What must be confirmed where the collection of a restored document is not what it was."""

    new_collection = StrictBooleanField(
        default=False,
        help_text="Whether its collection may be made again, which everybody reads, where no document is in it any "
        "more. Where some collection is private, it is refused otherwise (409).",
    )
    more_readers = StrictBooleanField(
        default=False,
        help_text="Whether others may read it than when it was removed from a private collection; it is refused "
        "otherwise (409).",
    )


class ChangedDocumentSerializer(AboutSerializer):
    """The new content of a document: a text, an address, or, as multipart/form-data, a file."""

    text = StrictCharField(
        default="",
        allow_blank=True,
        trim_whitespace=False,
        help_text="Its lines are paragraphs, rows of its tables sentences.",
    )
    address = StrictCharField(
        default="", allow_blank=True, help_text="Fetched by a worker; on the public internet, https or http."
    )

    source_needed = True

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Exactly one source, or at most one."""
        sources = sum(1 for name in _SOURCES if attrs.get(name))
        if sources > 1 or (self.source_needed and not sources):
            raise serializers.ValidationError("Give a text, an address or a file: one of them.")
        return attrs


class NewDocumentSerializer(ChangedDocumentSerializer):
    """A new document."""

    id = StrictCharField(
        default="", allow_blank=True, help_text=f"At most {LONGEST_ID} characters; generated if not given."
    )


class ChangedUploadSerializer(ChangedDocumentSerializer):
    """The new content of a document, with a file."""

    file = serializers.FileField(
        default=None,
        allow_null=True,
        help_text="Text, Markdown, HTML, CSV, TSV, PDF or DOCX; new documents also as JSON lines, Parquet, MediaWiki "
        f"or ZIM. At most {_FILES_MB} MB.",
    )


class TriedDocumentSerializer(ChangedDocumentSerializer):
    """A change to be looked at. Without text and address the document's text stays."""

    source_needed = False


class TriedUploadSerializer(ChangedUploadSerializer):
    """A change to be looked at, with a file. Without one, nor text and address, the document's text stays."""

    source_needed = False


class UploadSerializer(ChangedUploadSerializer, NewDocumentSerializer):
    """A new document, with a file; if its format holds many documents, all of them."""


class BulkSerializer(StrictSerializer):
    """Documents to write in one edit, all or none."""

    documents = NewDocumentSerializer(many=True, help_text=f"1 to {MOST_DOCUMENTS:,}.")


class BulkRemovalSerializer(StrictSerializer):
    """Documents to remove in one edit, all or none."""

    ids = serializers.ListField(
        child=StrictCharField(max_length=LONGEST_ID, trim_whitespace=False),
        min_length=1,
        max_length=MOST_DOCUMENTS,
        help_text=f"Their ids: 1 to {MOST_DOCUMENTS:,}, each once.",
    )

    def validate_ids(self, ids: list[str]) -> list[str]:
        """Each once; the error names the places of those that are repeated."""
        first = {one: place for place, one in reversed([*enumerate(ids)])}
        repeated: dict[Any, str] = {
            place: f"It is ids[{first[one]}], too." for place, one in enumerate(ids) if first[one] != place
        }
        if repeated:
            raise serializers.ValidationError(repeated)
        return ids


class FilesSerializer(AboutSerializer):
    """Files to add in one edit, all or none, and what is said of every document in them."""

    title = None  # type: ignore[assignment]  # as REST framework has it: the field is not inherited
    url = None  # type: ignore[assignment]
    file = serializers.ListField(
        child=serializers.FileField(allow_empty_file=True),  # which the reader names with all others that it refuses
        min_length=1,
        max_length=MOST_FILES,
        help_text=f"1 to {MOST_FILES}, each as a part of this name: one document each, or as many as it holds. At most "
        f"{_FILES_MB} MB together.",
    )


def _warnings(source: str | None = None) -> serializers.ListField:
    return serializers.ListField(
        source=source,
        child=serializers.CharField(),
        help_text="Sentences about what was guessed or not read of what it was read from, and about its language where "
        "that is not the models', or not what its text seems to be in.",
    )


class ListedDocumentSerializer(serializers.Serializer[Any]):
    """A document of the deployed corpus."""

    id = serializers.CharField(source="document_id")
    title = serializers.CharField()
    url = serializers.CharField()
    blocks = serializers.IntegerField(help_text="The number of its searched blocks.")
    status = serializers.ChoiceField(DocumentStatus.choices)
    format = serializers.CharField(help_text="The format that it was read from; `base`: it came with the corpus.")
    warnings = _warnings()
    added_at = serializers.DateTimeField(source="row.added_at", allow_null=True, help_text="Null: it was never edited.")
    changed_at = serializers.DateTimeField(source="row.changed_at", allow_null=True)


class DocumentBlockSerializer(serializers.Serializer[Any]):
    """A block as it is searched."""

    block_id = serializers.CharField()
    section = serializers.CharField(help_text="Its heading; for a PDF with the page.")
    text = serializers.CharField()


class DocumentSerializer(ListedDocumentSerializer):
    """A document with its text; without text, blocks and version if it was removed."""

    licence = serializers.CharField(source="about.licence", help_text="Empty: not stated.")
    attribution = serializers.CharField(source="about.attribution", help_text="Whom the text is by; empty: not stated.")
    language = serializers.CharField(source="about.language")
    date = serializers.DateField(source="about.date", allow_null=True)
    tags = serializers.ListField(source="about.tags", child=serializers.CharField())
    collection = serializers.CharField(source="about.collection")
    text = serializers.CharField()
    passages = DocumentBlockSerializer(many=True)
    corpus = serializers.CharField(help_text="The corpus state, named as in answers.")
    original = serializers.URLField(  # the view's, which knows the request
        allow_null=True, help_text="Address of the PDF that it was read from; null: none is kept."
    )
    version = serializers.CharField(
        allow_null=True, help_text="Of its text and metadata, and its `ETag`; an edit may ask for it by `If-Match`."
    )


class EditedDocumentSerializer(ListedDocumentSerializer):
    """A document that an edit named, as it is now; its version is the one that this edit left."""

    version = serializers.CharField(
        allow_null=True,
        help_text="The `ETag` that this edit left, for the `If-Match` of the next one; null: it is not known any more.",
    )


class EditSerializer(serializers.Serializer[Any]):
    """The result of an edit."""

    corpus = serializers.CharField(
        help_text="The corpus state that it led to, named as in answers: NAME@SNAPSHOT+STATE; where the edit was made "
        "before, by a request with its key, the present one."
    )
    documents = EditedDocumentSerializer(many=True)
    changes = serializers.IntegerField(help_text="The number of changed documents.")
    new_collections = serializers.ListField(
        child=serializers.CharField(), help_text="Names of those that it made, which everybody reads."
    )
    timings_ms = serializers.DictField(
        child=serializers.FloatField(), help_text="read, publish (with embedding), commit and open."
    )


class TriedAnswerSerializer(TouchedAnswerSerializer):
    """A kept answer that read some of the passages that would go. `outcome`: of `anew`, if it was asked anew."""

    asked_anew = serializers.BooleanField(help_text="Whether its question was asked of the corpus as it would be.")
    anew = WithoutSerializer(
        allow_null=True, help_text="What that answered; null: there is no answer then, or it was not asked anew."
    )


class AskedAnewSerializer(serializers.Serializer[Any]):
    """The answers whose questions were asked of the corpus as it would be."""

    asked = serializers.IntegerField(
        source="summary.looked_at", help_text=f"How many: at most {MOST_ANEW}, those with the highest posterior."
    )
    outcomes = OutcomesSerializer(source="summary.outcomes", help_text="Of these.")
    reason = serializers.CharField(
        source="why_not", help_text="Why not all of `results` were asked anew; empty: they were."
    )


class PlacingSerializer(serializers.Serializer[Any]):
    """The collection that a change would put a document into."""

    moved_from = serializers.CharField(source="before", help_text="The one that it is in.")
    collection = serializers.CharField()
    is_new = serializers.BooleanField(help_text="Whether it would be made.")
    readers_before = serializers.CharField(help_text="Who may read it now.")
    readers = serializers.CharField(help_text="Who might read it then.")
    more_readers = serializers.BooleanField(help_text="Whether these are more, so that the change must confirm it.")


class PreviewSerializer(serializers.Serializer[Any]):
    """What a change would do."""

    same = serializers.BooleanField(
        source="preview.same", help_text="Whether the document is like that already, so that nothing changes."
    )
    warnings = _warnings("preview.warnings")
    placing = PlacingSerializer(source="preview.placing")
    passages_gone = DocumentBlockSerializer(
        source="preview.gone", many=True, help_text="Its passages that would be searched no more."
    )
    passages_new = DocumentBlockSerializer(
        source="preview.new", many=True, help_text="Those that would be searched then."
    )
    passages_kept = DocumentBlockSerializer(source="preview.kept", many=True, help_text="Those of today that stay.")
    summary = SummarySerializer(help_text="Of the answers without the passages that go, worked out without the model.")
    anew = AskedAnewSerializer()
    results = TriedAnswerSerializer(
        source="anew.rows", many=True, help_text=f"The answers with the highest posterior, at most {MOST_ANEW}."
    )


def document_input(told: dict[str, Any]) -> DocumentInput:
    """The request in the service's format."""
    file = told.get("file")
    source: Text | File | Address
    if file is not None:
        source = File.of(file)
    elif told["address"]:
        source = Address(told["address"])
    else:
        source = Text(told["text"])
    return _with_source(source, told)


def files_input(told: dict[str, Any]) -> list[DocumentInput]:
    """The same for several files."""
    return [_with_source(File.of(one), {**told, "title": "", "url": None}) for one in told["file"]]


def tried_input(told: dict[str, Any]) -> DocumentInput:
    """The same for a change to be looked at."""
    return document_input(told) if any(told.get(name) for name in _SOURCES) else metadata_input(told)


def metadata_input(told: dict[str, Any]) -> DocumentInput:
    """The same for a request that changes only metadata."""
    return _with_source(OwnText(), told)


def _with_source(source: Source, told: dict[str, Any]) -> DocumentInput:
    about = {name: told[name] for name in AboutSerializer().get_fields()}
    about["tags"] = None if told["tags"] is None else tuple(told["tags"])
    return DocumentInput(source, document_id=told.get("id", ""), **about)
