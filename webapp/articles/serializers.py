"""Blocks and articles, as the API describes them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from webapp.articles.service import ArticleBlock


class BlockSerializer(serializers.Serializer[ArticleBlock]):
    """A block of a corpus."""

    block_id = serializers.CharField(source="block.block_id")
    title = serializers.CharField(source="block.title", help_text="The article's title.")
    text = serializers.CharField(source="block.text")
    section = serializers.CharField(source="block.section", allow_blank=True)
    url = serializers.CharField(source="block.url", allow_blank=True, help_text="The article at its source.")
    licence = serializers.CharField(allow_blank=True, help_text="Of the article; empty: not stated.")
    attribution = serializers.CharField(allow_blank=True, help_text="Of the article; empty: not stated.")
    collection = serializers.CharField(help_text="The collection that the article is in.")
    start = serializers.IntegerField(
        source="block.start", help_text="Start of the block in the article's text, in characters."
    )
    end = serializers.IntegerField(source="block.end")
    previous = serializers.CharField(allow_null=True, help_text="Id of the block before it in the article.")
    next = serializers.CharField(allow_null=True)
    corpus = serializers.CharField(source="corpus_id", help_text="Name and id of the block's corpus snapshot.")


class PlaceSerializer(serializers.Serializer[Any]):
    """The position of a block in its article."""

    block_id = serializers.CharField()
    section = serializers.CharField(allow_blank=True)
    start = serializers.IntegerField(help_text="In characters of the article's text.")
    end = serializers.IntegerField()


class ArticleSerializer(serializers.Serializer[ArticleBlock]):
    """An article of a corpus."""

    title = serializers.CharField(source="article.title")
    text = serializers.CharField(source="article.text", help_text="Plain text without headings.")
    url = serializers.CharField(source="article.url", allow_blank=True, help_text="The article at its source.")
    licence = serializers.CharField(allow_blank=True, help_text="Of the article; empty: not stated.")
    attribution = serializers.CharField(allow_blank=True, help_text="Of the article; empty: not stated.")
    blocks = PlaceSerializer(many=True, help_text="The article's blocks, in order.")
    corpus = serializers.CharField(source="corpus_id", help_text="Name and id of the article's corpus snapshot.")
