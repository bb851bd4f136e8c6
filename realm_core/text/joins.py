"""join(x), join(z) and join(x, z): texts as one input sequence of wordpieces (paper, section 3.2).

    join(x)     [CLS] question [SEP]
    join(z)     [CLS] title [SEP] body [SEP]                     segments 0 (to the first [SEP]) / 1
    join(x, z)  [CLS] question [SEP] (title [SEP]) body [SEP]    segments 0 / 1

The character offsets of the body's wordpieces are kept, so that an answer is returned in its original spelling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the web forms import TITLE_WORDPIECES and must not load a tokenizer
    from realm_core.text.wordpieces import Encoded, Wordpieces

TITLE_WORDPIECES = 64  # longer titles are truncated to leave room for the body


@dataclass(frozen=True)
class Joined:
    """One sequence with its special tokens; the body's wordpieces are at [body_start, body_stop)."""

    ids: list[int]
    segments: list[int]
    body_start: int
    body_stop: int


def join_query(wordpieces: Wordpieces, questions: Sequence[str], limit: int) -> list[Joined]:
    """join(x) of each question, truncated to `limit` wordpieces."""
    joined = []
    for encoded in wordpieces.encode(questions):
        ids = [wordpieces.cls_id, *encoded.ids[: limit - 2], wordpieces.sep_id]
        joined.append(Joined(ids, [0] * len(ids), 1, len(ids) - 1))
    return joined


def join_block(wordpieces: Wordpieces, titles: Sequence[str], bodies: Sequence[str], limit: int) -> list[Joined]:
    """join(z) of each block; the body is truncated so that the sequence has at most `limit` wordpieces."""
    joined = []
    for title, body in zip(wordpieces.encode(titles), wordpieces.encode(bodies), strict=True):
        head = [wordpieces.cls_id, *title.ids[:TITLE_WORDPIECES], wordpieces.sep_id]
        joined.append(_with_body(wordpieces, head, len(head), body, limit))
    return joined


def join_pair(
    wordpieces: Wordpieces, question: Encoded, title: Encoded | None, body: Encoded, *, question_limit: int, limit: int
) -> Joined:
    """join(x, z) of texts that are encoded already. The paper and the released code leave the title out."""
    head = [wordpieces.cls_id, *question.ids[: question_limit - 2], wordpieces.sep_id]
    question_length = len(head)
    if title is not None:
        head += [*title.ids[:TITLE_WORDPIECES], wordpieces.sep_id]
    return _with_body(wordpieces, head, question_length, body, limit)


def _with_body(wordpieces: Wordpieces, head: list[int], first_segment: int, body: Encoded, limit: int) -> Joined:
    body_ids = body.ids[: max(limit - len(head) - 1, 0)]
    ids = [*head, *body_ids, wordpieces.sep_id]
    return Joined(
        ids=ids,
        segments=[0] * first_segment + [1] * (len(ids) - first_segment),
        body_start=len(head),
        body_stop=len(head) + len(body_ids),
    )
