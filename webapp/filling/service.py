"""Filling the masks of a sentence, for page and REST API alike. Nothing is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.contrib.auth.models import AnonymousUser, User

from realm_core.settings import MAX_K
from realm_core.text.masked import MASK, MOST_MASKS, between_masks
from webapp.access.collections import access_of
from webapp.asking.scope import scope_of
from webapp.asking.service import wrong_ids
from webapp.metrics.middleware import listens
from webapp.refusals import FieldError, InvalidRequest, too_long
from webapp.serving.engine import EngineUnavailable, serving
from webapp.text import one_line

if TYPE_CHECKING:
    from realm_core.serving.filled import Filling

# The model reads 94 wordpieces of a sentence, some 450 characters of English.
MAX_SENTENCE_CHARACTERS: Final = 1000
MAX_TRUTH_CHARACTERS: Final = 200
DEFAULT_K: Final = 8  # as in the paper; the null block is one of them


@dataclass(frozen=True)
class FillRequest:
    """A validated sentence. truth: the masked words, None if not given."""

    sentence: str
    k: int
    exclude: tuple[str, ...]
    truth: str | None


def checked(sentence: str, k: int = DEFAULT_K, exclude: Sequence[str] = (), truth: str | None = None) -> FillRequest:
    """The validated and cleaned request. InvalidRequest names every wrong field."""
    errors = []
    cleaned, truth = one_line(sentence), one_line(truth or "")
    masks = len(between_masks(cleaned)) - 1
    if not cleaned:
        errors.append(FieldError("sentence", f"Write a sentence with {MASK} where a word is missing."))
    elif len(cleaned) > MAX_SENTENCE_CHARACTERS:
        errors.append(too_long("sentence", "A sentence", cleaned, MAX_SENTENCE_CHARACTERS))
    elif masks == 0:
        errors.append(FieldError("sentence", f"Nothing is missing in this sentence: write {MASK} in place of a word."))
    elif masks > MOST_MASKS:
        errors.append(FieldError("sentence", f"A sentence may have at most {MOST_MASKS} {MASK}; this one has {masks}."))
    if not 2 <= k <= MAX_K:
        errors.append(FieldError("k", f"k, the number of blocks with the null block, must be between 2 and {MAX_K}."))
    errors += wrong_ids(exclude)
    if len(truth) > MAX_TRUTH_CHARACTERS:
        errors.append(FieldError("truth", f"What is missing may have at most {MAX_TRUTH_CHARACTERS} characters."))
    if errors:
        raise InvalidRequest(*errors)
    return FillRequest(cleaned, k, tuple(dict.fromkeys(exclude)), truth or None)


def fill(request: FillRequest, *, asker: User | AnonymousUser) -> Filling:
    """Fill the sentence without retrieval, from its best block, and from `k` blocks that `asker` may read together.

    Raises EngineUnavailable, or another RealmError.
    """
    scope = scope_of(access_of(asker))
    with serving() as service:
        return service.engine.fill(
            request.sentence,
            k=request.k,
            exclude=request.exclude,
            scope=scope,
            truth=request.truth,
            listens=listens(),
        )


def has_encoder() -> bool | None:
    """Whether the deployed model fills with an encoder; None while none is loaded (this call starts the loading)."""
    try:
        with serving() as service:
            return service.engine.has_encoder
    except EngineUnavailable:
        return None
