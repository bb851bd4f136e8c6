"""Blocks and articles, as the API describes them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class BlockSerializer(serializers.Serializer[Any]):
    """A block of a corpus."""

    block_id = serializers.CharField()
    title = serializers.CharField(help_text="The article's title.")
    text = serializers.CharField()
    section = serializers.CharField(allow_blank=True)
    url = serializers.CharField(allow_blank=True, help_text="The article at its source.")
    start = serializers.IntegerField(help_text="Start of the block in the article's text, in characters.")
    end = serializers.IntegerField()
    previous = serializers.CharField(allow_null=True, help_text="Id of the block before it in the article.")
    next = serializers.CharField(allow_null=True)
    corpus = serializers.CharField(help_text="Name and id of the block's corpus snapshot.")


class PlaceSerializer(serializers.Serializer[Any]):
    """The position of a block in its article."""

    block_id = serializers.CharField()
    section = serializers.CharField(allow_blank=True)
    start = serializers.IntegerField(help_text="In characters of the article's text.")
    end = serializers.IntegerField()


class ArticleSerializer(serializers.Serializer[Any]):
    """An article of a corpus."""

    title = serializers.CharField()
    text = serializers.CharField(help_text="Plain text without headings.")
    url = serializers.CharField(allow_blank=True, help_text="The article at its source.")
    licence = serializers.CharField(allow_blank=True, help_text="Of the article; empty: not stated.")
    attribution = serializers.CharField(allow_blank=True, help_text="Of the article; empty: not stated.")
    blocks = PlaceSerializer(many=True, help_text="The article's blocks, in order.")
    corpus = serializers.CharField(help_text="Name and id of the article's corpus snapshot.")
