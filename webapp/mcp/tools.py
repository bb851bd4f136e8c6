"""The tools that language models call: their schemas and what they do; the services are those of REST."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django.urls import reverse
from rest_framework.request import Request

from webapp.access.collections import access_of
from webapp.articles import service as articles
from webapp.articles.serializers import BlockSerializer
from webapp.asking import service as asking
from webapp.asking.api import retrieval_json
from webapp.asking.kept_api import answer_json
from webapp.asking.scope import MAX_VALUES
from webapp.asking.serializers import AnswerSerializer, QuestionSerializer, RetrievalSerializer
from webapp.asking.service import MAX_EXCLUDED
from webapp.collections import service as collections
from webapp.collections.api import CollectionSerializer
from webapp.mcp.schemas import Schema, object_schema, schema_of
from webapp.rest.serializers import StrictCharField, StrictSerializer


class ToolError(Exception):
    """A tool call that failed, with a message for the caller."""


@dataclass(frozen=True)
class Tool:
    """One tool. counted: whether a call counts as a question for the rate limit."""

    name: str
    title: str
    description: str
    arguments: type[StrictSerializer]
    takes: Schema
    gives: Schema
    run: Callable[..., dict[str, Any]]
    counted: bool
    changes_nothing: bool

    def listed(self) -> Schema:
        """The tool in the protocol's list."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.takes,
            "outputSchema": self.gives,
            "annotations": {
                "readOnlyHint": self.changes_nothing,
                "destructiveHint": False,
                "idempotentHint": self.changes_nothing,
                "openWorldHint": False,
            },
        }


class _BlockIdSerializer(StrictSerializer):
    block_id = StrictCharField(trim_whitespace=False, help_text="From ask or retrieve.")


def _ask(request: Request, **question: Any) -> dict[str, Any]:
    asked = asking.ask(asking.checked(**question, access=access_of(request.user)), asker=request.user)
    return {
        "id": str(asked.pk),
        "link": request.build_absolute_uri(reverse("answer", args=[asked.pk])),
        "question": asked.question,
        "read_as": asked.payload.get("read_as", ""),
        "answer": asked.answer_text,
        "probability": asked.probability,
        "no_answer_probability": asked.no_answer_probability,
        **{name: asked.reading[name] for name in _SURENESS},
        "evidence": [_evidence(block) for block in answer_json(asked)["evidence"]],
        **{name: asked.payload[name] for name in _MADE_FROM},
    }


def _evidence(block: dict[str, Any]) -> dict[str, Any]:
    start, end = block["start"], block["end"]
    quote = None if start is None else block["text"][start:end]
    return {name: block[name] for name in _OF_BLOCK} | {"quote": quote}


def _retrieve(request: Request, **question: Any) -> dict[str, Any]:
    return retrieval_json(asking.retrieve(asking.checked(**question, access=access_of(request.user))))


def _collections(request: Request) -> dict[str, Any]:
    listed = collections.listed(access_of(request.user).hidden)
    return {"collections": CollectionSerializer(listed, many=True).data}


def _read_block(request: Request, block_id: str) -> dict[str, Any]:
    source = articles.find(block_id, hidden=access_of(request.user).hidden)
    if source is None:
        raise ToolError(f"There is no block {block_id!r}. Ids of blocks come from ask and retrieve.")
    return BlockSerializer(source).data


_MADE_FROM: Final = ("model", "index", "corpus")
_SURENESS: Final = ("confidence", "min_confidence", "min_probability")
_OF_BLOCK: Final = (
    *("rank", "block_id", "title", "section", "url", "licence", "attribution", "collection", "text"),
    *("prior", "likelihood", "posterior", "support"),
)
_QUESTION: Final = schema_of(
    QuestionSerializer,
    question={"minLength": 1},
    exclude={"maxItems": MAX_EXCLUDED},
    collections={"maxItems": MAX_VALUES},
)
_ANSWER: Final = schema_of(AnswerSerializer)["properties"]
_EVIDENCE: Final = _ANSWER["evidence"]["items"]["properties"]
_QUOTE: Final = {"type": ["string", "null"], "description": "The answer's words in the block."}

TOOLS: Final = {
    tool.name: tool
    for tool in (
        Tool(
            "ask",
            "Ask a question",
            "Answers a factual question from the k best blocks of the corpus. The answer is stored under a permanent "
            "link, and comes with its probability and every block that it was read from. An answer of null: they hold "
            "none.",
            QuestionSerializer,
            _QUESTION,
            object_schema(
                {
                    "id": {"type": "string", "description": "Id of the kept answer."},
                    "link": {"type": "string", "description": "The permanent page of this answer, to cite."},
                    **{name: _ANSWER[name] for name in ("question", "read_as")},
                    "answer": {"type": ["string", "null"], "description": _ANSWER["answer"]["description"]},
                    "probability": {
                        "type": ["number", "null"],
                        "description": "Sum over the blocks read of prior × likelihood; null where there is no answer.",
                    },
                    **{name: _ANSWER[name] for name in ("no_answer_probability", *_SURENESS)},
                    "evidence": _ANSWER["evidence"]
                    | {"items": object_schema({name: _EVIDENCE[name] for name in _OF_BLOCK} | {"quote": _QUOTE})},
                    **{name: _ANSWER[name] for name in _MADE_FROM},
                }
            ),
            _ask,
            counted=True,
            changes_nothing=False,
        ),
        Tool(
            "retrieve",
            "Find blocks",
            "Finds the k blocks of the corpus that fit a question best, without reading an answer in them.",
            QuestionSerializer,
            _QUESTION,
            schema_of(RetrievalSerializer),
            _retrieve,
            counted=True,
            changes_nothing=True,
        ),
        Tool(
            "read_block",
            "Read a block",
            "Shows a block, where it stands in its article, and the ids of the blocks before and after it.",
            _BlockIdSerializer,
            schema_of(_BlockIdSerializer),
            schema_of(BlockSerializer),
            _read_block,
            counted=False,
            changes_nothing=True,
        ),
        Tool(
            "collections",
            "List collections",
            "Lists the collections of documents that may be looked in, and what their documents can be filtered by.",
            StrictSerializer,
            schema_of(StrictSerializer),
            object_schema({"collections": {"type": "array", "items": schema_of(CollectionSerializer)}}),
            _collections,
            counted=False,
            changes_nothing=True,
        ),
    )
}
