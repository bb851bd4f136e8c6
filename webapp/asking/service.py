"""Asking a question, for page, REST API and command line alike.

check → engine → store answer and evidence in one short transaction. The engine runs outside the transaction, so that it
does not block SQLite's only writer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import Error, close_old_connections, transaction

from realm_core.corpus.records import BLOCK_ID
from realm_core.settings import MAX_K
from webapp import metrics
from webapp.access.collections import CollectionAccess
from webapp.asking.scope import Filters, checked_collections, checked_filters, scope_of
from webapp.metrics.middleware import current_asking, listens, served
from webapp.models import AskedAnswer, Deployment, EvidenceBlock
from webapp.refusals import FieldError, InvalidRequest, too_long
from webapp.request_id import set_answer_id
from webapp.serving.engine import EngineUnavailable, Serving, serving
from webapp.text import one_line

if TYPE_CHECKING:
    from realm_core.living.scope import Scope
    from realm_core.serving.corpus import ServedCorpus
    from realm_core.serving.provenance import Answer
    from realm_core.serving.retrieval import RetrievedBlock

# The model reads 64 wordpieces of a question, about 300 characters of English. A thousand leaves room for any script
# and for long sentences; anything longer is a text pasted by mistake.
MAX_QUESTION_CHARACTERS: Final = 1000
MAX_EXCLUDED: Final = 100
# The number of questions of all batches together that wait at the engine: enough to keep it busy while answers are
# stored, and few enough to leave others their turn.
_LANES: Final = 32
_CHUNK: Final = 64  # after so many questions the batch queries the active deployment


@dataclass(frozen=True)
class AskRequest:
    """A checked question. collections, filters: as they were named. scope: what that comes to for its asker.

    k: None: as many blocks as the model reads over the corpus.
    as_typed: whether its spelling must not be corrected.
    again_of: the kept answer whose question this is; the answer is the same without one.
    """

    question: str
    k: int | None
    exclude: tuple[str, ...]
    collections: tuple[str, ...] = ()
    filters: Filters = field(default_factory=Filters)
    scope: Scope | None = None
    as_typed: bool = False
    again_of: AskedAnswer | None = field(default=None, compare=False)

    def read_by(self, service: Serving) -> AskRequest:
        """With the number of blocks that this service reads where none is named."""
        return replace(self, k=self.k or service.engine.config.k)


@dataclass(frozen=True)
class Retrieval:
    """Blocks retrieved for a question, and the deployment that retrieved them."""

    question: str
    blocks: list[RetrievedBlock]
    model: str
    index: str
    corpus: str
    read_as: str


def checked(
    question: str,
    k: int | None = None,
    exclude: Sequence[str] = (),
    collections: Sequence[str] = (),
    filters: Mapping[str, Any] | None = None,
    as_typed: bool = False,
    *,
    access: CollectionAccess,
) -> AskRequest:
    """The request of a caller with this access: checked, its question cleaned.

    exclude:     ids of blocks that must not be read.
    collections: names of those to look in; none: all that the asker may read. filters: as `Filters.as_dict`.
    as_typed:    do not correct its spelling.
    InvalidRequest names every field that is wrong. EngineUnavailable where collections are named and none is loaded.
    """
    errors = []
    cleaned = one_line(question)
    if not cleaned:
        errors.append(FieldError("question", "Write a question."))
    elif not any(map(str.isalnum, cleaned)):
        errors.append(FieldError("question", "Write a question in words: this has no letter and no digit."))
    elif len(cleaned) > MAX_QUESTION_CHARACTERS:
        errors.append(too_long("question", "A question", cleaned, MAX_QUESTION_CHARACTERS))
    if k is not None and not 1 <= k <= MAX_K:
        errors.append(FieldError("k", f"k, the number of blocks to read, must be between 1 and {MAX_K}."))
    errors += wrong_ids(exclude)
    names, wrong_names = checked_collections(collections, access)
    kept_filters, wrong_filters = checked_filters(filters or {})
    errors += [*wrong_names, *wrong_filters]
    if errors:
        raise InvalidRequest(*errors)
    scope = scope_of(access, names, kept_filters)
    return AskRequest(cleaned, k, tuple(dict.fromkeys(exclude)), names, kept_filters, scope, as_typed)


def wrong_ids(exclude: Sequence[str]) -> list[FieldError]:
    """Errors in the ids of the blocks that must not be read."""
    errors = []
    if len(exclude) > MAX_EXCLUDED:
        errors.append(FieldError("exclude", f"At most {MAX_EXCLUDED} blocks can be excluded."))
    for position, block_id in enumerate(exclude):
        if not BLOCK_ID.fullmatch(block_id):
            errors.append(FieldError(f"exclude[{position}]", "A block's id is 32 hexadecimal digits."))
    return errors


def ask(
    request: AskRequest,
    *,
    asker: User | AnonymousUser | None,
    session_key: str = "",
    kept: Callable[[AskedAnswer], None] | None = None,
) -> AskedAnswer:
    """Answer a question from the `k` best blocks and store the answer.

    asker: who asks; an anonymous one is remembered by `session_key` alone. None: the command line.
    kept:  called in the transaction that keeps the answer; what it raises undoes that.
    EngineUnavailable, or RealmError from the engine.
    """
    try:
        with serving() as service:
            request = request.read_by(service)
            answer = _answer(service, request, listens())
        asked = _store(request, answer, service.deployment, asker, session_key, kept)
    except Exception as error:
        _count(error)
        raise
    set_answer_id(str(asked.pk))
    if (current := current_asking()) is None:
        served(asked)
    else:
        current.answer = asked
        current.add("store", asked.serving_ms["store"])
        current.renders()
    return asked


def ask_many(
    requests: Iterable[AskRequest | Exception],
    *,
    asker: User | AnonymousUser | None = None,
    session_key: str = "",
    listens: Callable[[], bool] | None = None,
) -> Iterator[AskedAnswer | Exception]:
    """Answer validated questions in batches, store each answer, and yield them in the order of the questions.

    If a question cannot be answered, its exception takes the answer's place, and the others are answered; exceptions
    among the requests stay in their places.

    listens: whether the client is still connected. It is passed in because the engine's threads, and a stream after its
             request, run outside of the request's context.
    """
    remaining = iter(requests)
    while chunk := list(islice(remaining, _CHUNK)):
        with ExitStack() as held:
            try:
                service = held.enter_context(serving())
            except (EngineUnavailable, Error) as unavailable:
                close_old_connections()  # replaces a broken connection for later queries
                _count(unavailable, sum(isinstance(request, AskRequest) for request in chunk))
                yield from (request if isinstance(request, Exception) else unavailable for request in chunk)
                continue
            chunk = [one.read_by(service) if isinstance(one, AskRequest) else one for one in chunk]
            # Answers are stored while later ones are computed. If the client leaves, the rest is not computed.
            for request, answer in zip(chunk, _lanes().map(partial(_attempt, service, listens), chunk), strict=True):
                if isinstance(answer, Exception):  # including those among the requests
                    yield answer
                    continue
                assert isinstance(request, AskRequest)
                try:
                    asked = _store(request, answer, service.deployment, asker, session_key)
                except Error as error:  # also InterfaceError, which is no DatabaseError
                    close_old_connections()
                    _count(error)
                    yield error
                    continue
                served(asked)
                yield asked


def ask_of(service: Serving, corpus: ServedCorpus, request: AskRequest, listens: Callable[[], bool]) -> Answer:
    """The engine's answer from a corpus that is only tried: not kept, and not found by repeats."""
    return service.engine.ask(request.question, **_wanted(request), corpus=corpus, listens=listens)


def retrieve(request: AskRequest) -> Retrieval:
    """The `k` best blocks for a question, unread; nothing is kept. Errors as those of `ask`."""
    with serving() as service:
        engine = service.engine
        found = engine.retrieve(request.question, **_wanted(request), listens=listens())
        made_from = (engine.model_id, engine.index_id, found.corpus)
        return Retrieval(request.question, found.blocks, *made_from, found.read_as)


def _wanted(request: AskRequest) -> dict[str, Any]:
    return {"k": request.k, "exclude": request.exclude, "scope": request.scope, "as_typed": request.as_typed}


def without(asked: AskedAnswer, block_ids: Collection[str]) -> Answer:
    """The kept answer as if the blocks had not been read: in closed form, without the model.

    InvalidRequest if a block is not among those that were read.
    """
    from realm_core.serving.provenance import Answer

    answer = Answer.from_dict(asked.payload)
    read = {block.block_id for block in answer.evidence}
    unknown = [block_id for block_id in block_ids if block_id not in read]
    if unknown:
        raise InvalidRequest(FieldError("without", f"{unknown[0]!r} is not one of the blocks read for this answer."))
    return answer.without(frozenset(block_ids)) if block_ids else answer


def _answer(service: Serving, request: AskRequest, listens: Callable[[], bool] | None) -> Answer:
    """The engine's answer, or the cached one of an exact repeat.

    Also called in threads that have no connection to the database.
    """
    began = time.perf_counter()
    if (repeated := service.repeats.get((request, service.engine.corpus_id))) is not None:
        metrics.REPEATS.inc()
        found_ms = (time.perf_counter() - began) * 1e3
        return replace(repeated, latency_ms=found_ms, timings_ms={"repeat": found_ms})
    answer = service.engine.ask(request.question, **_wanted(request), listens=listens)
    service.repeats.put((request, answer.corpus), answer)
    return answer


@cache
def _lanes() -> ThreadPoolExecutor:
    """The threads that wait at the engine for questions of batches, shared by all batches.

    At most a quarter of the engine's queue, so that others always find room.
    """
    most = max(1, min(_LANES, settings.ASK_QUEUE // 4))
    return ThreadPoolExecutor(max_workers=most, thread_name_prefix="ask-many")


def _attempt(
    service: Serving, listens: Callable[[], bool] | None, request: AskRequest | Exception
) -> Answer | Exception:
    if isinstance(request, Exception):
        return request
    try:
        if listens is not None and not listens():  # the client left while the question waited
            raise EngineUnavailable("The client has disconnected.", retry_after_s=1)
        return _answer(service, request, listens)
    except Exception as error:  # reported in the place of this question's answer
        _count(error)
        return error


def _count(error: Exception, questions: int = 1) -> None:
    metrics.QUESTIONS.labels("refused" if isinstance(error, EngineUnavailable) else "failed").inc(questions)


def _store(
    request: AskRequest,
    answer: Answer,
    deployment: Deployment,
    asker: User | AnonymousUser | None,
    session_key: str,
    kept: Callable[[AskedAnswer], None] | None = None,
) -> AskedAnswer:
    """The answer as stored; `serving_ms` has the time of storing, and is not stored yet."""
    began = time.perf_counter()
    assert request.k is not None
    asked = AskedAnswer(
        question=request.question,
        asker=asker if isinstance(asker, User) else None,
        session_key=session_key or "",
        k=request.k,
        exclude=list(request.exclude),
        collections=list(request.collections),
        filters=request.filters.as_dict(),
        as_typed=request.as_typed,
        deployment=deployment,
        again_of=request.again_of,
        latency_ms=answer.latency_ms,
    )
    asked.tell(answer)
    with transaction.atomic():
        asked.save(force_insert=True)
        EvidenceBlock.keep(asked, answer)
        if kept is not None:
            kept(asked)
    asked.serving_ms = {"store": (time.perf_counter() - began) * 1e3}
    metrics.QUESTIONS.labels("answered" if answer.answer else "abstained").inc()
    metrics.LATENCY.observe(answer.latency_ms / 1e3)
    metrics.observe_stages(answer.timings_ms)
    return asked
