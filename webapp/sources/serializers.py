"""Files to ingest in the API."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from webapp.rest.serializers import StrictSerializer
from webapp.sources.service import LARGEST_UPLOAD_BYTES


class SourceFileSerializer(serializers.Serializer[Any]):
    """A file that a job can ingest."""

    name = serializers.CharField()
    size_bytes = serializers.IntegerField()


class NewSourceFileSerializer(StrictSerializer):
    """A file to ingest."""

    file = serializers.FileField(
        help_text="JSON lines or Parquet with id, title and text, or a MediaWiki dump, plain or compressed. At most "
        f"{LARGEST_UPLOAD_BYTES >> 20} MB; a larger one is copied into the data folder's sources/. Its name: letters, "
        "digits, spaces, dots and dashes, no dot in front, 200 at most."
    )
    replace = serializers.BooleanField(
        default=False, help_text="Whether it replaces a file of its name, unless that is being ingested."
    )
