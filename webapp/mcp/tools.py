"""The tools ask, retrieve and read_block: their schemas and what they do; the services are those of REST."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from django.urls import reverse
from rest_framework.request import Request

from realm_core.settings import MAX_K
from webapp.access.collections import access_of
from webapp.articles import service as articles
from webapp.articles.serializers import BlockSerializer
from webapp.asking import service as asking
from webapp.asking.scope import MAX_VALUES
from webapp.asking.serializers import QuestionSerializer
from webapp.asking.service import DEFAULT_K, MAX_EXCLUDED, MAX_QUESTION_CHARACTERS
from webapp.collections import service as collections
from webapp.collections.api import collection_json
from webapp.rest.serializers import StrictCharField, StrictSerializer

Schema = dict[str, Any]


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
    block_id = StrictCharField(trim_whitespace=False)


def _ask(request: Request, **question: Any) -> dict[str, Any]:
    asked = asking.ask(**question, asker=request.user)
    return {
        "id": str(asked.pk),
        "link": request.build_absolute_uri(reverse("answer", args=[asked.pk])),
        "question": asked.question,
        "read_as": asked.payload.get("read_as", ""),
        "answer": asked.answer_text,
        "probability": asked.probability,
        "no_answer_probability": asked.no_answer_probability,
        "confidence": asked.reading["confidence"],
        "evidence": [_evidence(block) for block in asked.payload["evidence"]],
        **{name: asked.payload[name] for name in _MADE_FROM},
    }


def _evidence(block: dict[str, Any]) -> dict[str, Any]:
    start, end = block["start"], block["end"]
    quote = None if start is None else block["text"][start:end]
    return {name: block[name] for name in (*_BLOCK, *_WEIGHTS)} | {"quote": quote}


def _retrieve(request: Request, **question: Any) -> dict[str, Any]:
    return asdict(asking.retrieve(**question, asker=request.user))


def _collections(request: Request) -> dict[str, Any]:
    return {"collections": [collection_json(one) for one in collections.listed(access_of(request.user).hidden)]}


def _read_block(request: Request, block_id: str) -> dict[str, Any]:
    source = articles.find(block_id, hidden=access_of(request.user).hidden)
    if source is None:
        raise ToolError(f"There is no block {block_id!r}. Ids of blocks come from ask and retrieve.")
    return BlockSerializer(source).data


# ---- schemas


def _object(properties: dict[str, Schema], *optional: str) -> Schema:
    needed = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def _typed(kind: str | list[str], description: str = "", **more: Any) -> Schema:
    return {"type": kind, **({"description": description} if description else {}), **more}


_TEXT: Final = _typed("string")
_TEXTS: Final = _typed("array", items=_TEXT)
_MADE_FROM: Final = {
    "model": _typed("string", "The model that answered."),
    "index": _typed("string", "The index that it searched."),
    "corpus": _typed("string", "The corpus snapshot that the blocks come from."),
}
_BLOCK: Final = {
    "rank": _typed("integer"),
    "block_id": _typed("string", "For read_block."),
    "title": _typed("string", "The article's title."),
    "section": _TEXT,
    "url": _typed("string", "The article at its source."),
    "text": _TEXT,
}
_WEIGHTS: Final = {
    "prior": _typed(
        "number",
        "The factor of the likelihood; sums to one over the blocks read. p(block | question), except under the "
        "normalisation joint: there it is the block's weight, which includes the reader's scores.",
    ),
    "likelihood": _typed("number", "p(answer | block, question)."),
    "posterior": _typed("number", "p(block | answer, question); sums to one over the blocks read."),
    "support": _typed("number", "Posterior − prior; positive: the block supports the answer."),
}
_FILTERS: Final = {
    "languages": _typed("array", "Codes such as en; any will do.", items=_TEXT, maxItems=MAX_VALUES),
    "tags": _typed("array", "Any will do.", items=_TEXT, maxItems=MAX_VALUES),
    "titles": _typed("array", "As they are written; any will do.", items=_TEXT, maxItems=MAX_VALUES),
    "since": _typed("string", "The first day of documents with a date.", format="date"),
    "until": _typed("string", "The last day.", format="date"),
}
_QUESTION: Final = _object(
    {
        "question": _typed("string", f"A factual question, at most {MAX_QUESTION_CHARACTERS} characters.", minLength=1),
        "k": _typed("integer", "How many blocks.", minimum=1, maximum=MAX_K, default=DEFAULT_K),
        "exclude": _typed(
            "array", "Ids of blocks that must not be read.", items=_TEXT, maxItems=MAX_EXCLUDED, default=[]
        ),
        "collections": _typed(
            "array", "Collections to look in; none: all that may be read.", items=_TEXT, maxItems=MAX_VALUES, default=[]
        ),
        "filters": _object(_FILTERS, *_FILTERS),
        "as_typed": _typed("boolean", "Do not correct the spelling.", default=False),
    },
    "k",
    "exclude",
    "collections",
    "filters",
    "as_typed",
)
_READ_AS: Final = _typed(
    "string", "The question with its spelling corrected, or a topic as a question; empty: it was read as typed."
)
_PROBABILITY: Final = "Sum over the blocks read of prior × likelihood; null where there is no answer."

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
            _object(
                {
                    "id": _typed("string", "Id of the kept answer."),
                    "link": _typed("string", "The permanent page of this answer, to cite."),
                    "question": _TEXT,
                    "read_as": _READ_AS,
                    "answer": _typed(["string", "null"], "Null: the blocks that were read hold no answer."),
                    "probability": _typed(["number", "null"], _PROBABILITY),
                    "no_answer_probability": _typed(["number", "null"], "That the blocks hold no answer."),
                    "confidence": _typed(
                        ["number", "null"], "How often answers like the best one are right; null: there is none."
                    ),
                    "evidence": _typed(
                        "array",
                        "The blocks that were read, the highest posterior first.",
                        items=_object(
                            {
                                **_BLOCK,
                                **_WEIGHTS,
                                "quote": _typed(["string", "null"], "The answer's words in the block."),
                            }
                        ),
                    ),
                    **_MADE_FROM,
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
            _object(
                {
                    "question": _TEXT,
                    "read_as": _READ_AS,
                    "blocks": _typed(
                        "array",
                        items=_object(
                            {
                                **_BLOCK,
                                "score": _typed(
                                    "number", "The prior's logit: vectors' inner product and shared rare words."
                                ),
                                "prior": _typed("number", "Softmax of the scores over the blocks found."),
                                "collection": _typed("string", "That its document is in."),
                            }
                        ),
                    ),
                    **_MADE_FROM,
                }
            ),
            _retrieve,
            counted=True,
            changes_nothing=True,
        ),
        Tool(
            "read_block",
            "Read a block",
            "Shows a block, where it stands in its article, and the ids of the blocks before and after it.",
            _BlockIdSerializer,
            _object({"block_id": _typed("string", "From ask or retrieve.")}),
            _object(
                {
                    **{name: schema for name, schema in _BLOCK.items() if name != "rank"},
                    "start": _typed("integer", "Where it starts in the article's text, in characters."),
                    "end": _typed("integer"),
                    "previous": _typed(["string", "null"], "Id of the block before it in the article."),
                    "next": _typed(["string", "null"], "Id of the block after it."),
                    "corpus": _MADE_FROM["corpus"],
                }
            ),
            _read_block,
            counted=False,
            changes_nothing=True,
        ),
        Tool(
            "collections",
            "List collections",
            "Lists the collections of documents that may be looked in, and what their documents can be filtered by.",
            StrictSerializer,
            _object({}),
            _object(
                {
                    "collections": _typed(
                        "array",
                        items=_object(
                            {
                                "name": _typed("string", "For ask and retrieve."),
                                "title": _TEXT,
                                "description": _TEXT,
                                "private": _typed("boolean", "Whether only some may read it."),
                                "weight": _typed("number", "What the prior of its blocks is multiplied by."),
                                "documents": _typed("integer", "How many it has."),
                                "languages": _TEXTS,
                                "tags": _TEXTS,
                                "since": _typed(["string", "null"], "The earliest date of a document."),
                                "until": _typed(["string", "null"], "The latest."),
                            }
                        ),
                    )
                }
            ),
            _collections,
            counted=False,
            changes_nothing=True,
        ),
    )
}
