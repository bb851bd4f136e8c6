"""The engine: question → answer with provenance. The web application needs nothing else for it.

    ask  → for a batch of queued questions: embed → search → read the k blocks of each → marginalise
    fill → the same for one masked sentence, with the block embedder and the encoder of a pre-trained model

Thread-safe: requests wait in a bounded queue (`waiting.py`), one thread computes (`computing.py`). Requests that arrive
while a batch is computed form the next batch, so that concurrent questions do not compete for the processors.

Legend: B questions, D dimension.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from realm_core.computing import compute, compute_aside, wait_for_quiet
from realm_core.errors import EngineUnavailable, RealmError
from realm_core.index.choice import WantedSearch
from realm_core.living.collections import CollectionFacts
from realm_core.living.documents import Changes
from realm_core.living.editing import Embed
from realm_core.living.scope import Scope
from realm_core.living.state import LivingState
from realm_core.model.checkpoint import Model, load_model
from realm_core.model.config import Normalisation
from realm_core.model.device import fast_dtype, pick_device, release_memory
from realm_core.questions.answers import holds_answer
from realm_core.serving.corpus import LivingCorpus, ServedCorpus, Wanted, best, nearest, open_corpus
from realm_core.serving.english.topics import read_as
from realm_core.serving.filled import Filling
from realm_core.serving.gap_reading import as_question, filling_of, one_gap
from realm_core.serving.mask_reading import MaskedSentence, MaskReading, masked_sentence
from realm_core.serving.provenance import Answer
from realm_core.serving.reading import BlockReading, SearchResult
from realm_core.serving.retrieval import AskedQuestion, Retrieved, as_meant, retrieved
from realm_core.serving.waiting import QueuedRequest, RequestQueue
from realm_core.settings import MAX_K

log = logging.getLogger(__name__)

_STAGES = ("wait", "embed", "search", "read", "marginalise")
BATCH_QUESTIONS = 64  # at most; each is answered as soon as its blocks have been read
CAPACITY = 128  # questions in the queue
DEADLINE_S = 600.0
_MAX_RELEASE_DELAY_S = 60.0  # a closed engine waits this long for an idle moment to release its memory


@dataclass(frozen=True)
class _QueuedQuestion(AskedQuestion):
    normalisation: Normalisation
    read: bool
    corpus: ServedCorpus | None = None
    """What it is answered from; None: what is served."""


@dataclass(frozen=True)
class _QueuedSentence:
    masked: MaskedSentence
    wanted: Wanted


_Queued = QueuedRequest[_QueuedQuestion | _QueuedSentence]


class Engine:
    """A model with a matching index and corpus, ready to answer.

    capacity:   size of the request queue; deadline_s: maximum time from request to result. `EngineUnavailable` is
                raised if either is exceeded.
    on_batch:   called after each batch with its size (0 if all its clients had disconnected) and the queue length.
    """

    def __init__(
        self,
        model: Model,
        corpus: ServedCorpus,
        *,
        index: str,
        name: str,
        capacity: int = CAPACITY,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._corpus = corpus  # replaced as a whole; a user reads it once
        self.model_id = f"{name}@{model.hash}"
        self.index_id = index
        self.config = model.config.at(corpus.origin)
        self.reader_product = model.reader.product
        made_from = {"model": self.model_id, "index": self.index_id, "corpus": corpus.id}
        self._query = model.query
        self._reading = BlockReading(model.reader, self.config, **made_from)
        self._on_processors = self._reading.device.type == "cpu"
        # The block embedder is kept only for filling; questions do not need it.
        self._has_encoder = model.encoder is not None
        self._masks = None if model.encoder is None else MaskReading(model.block, model.encoder, **made_from)
        self._queue: RequestQueue[_QueuedQuestion | _QueuedSentence] = RequestQueue(capacity, deadline_s)
        self.on_batch: Callable[[int, int], object] | None = None
        self._thread = threading.Thread(target=self._serve, name="engine", daemon=True)
        self._thread.start()

    @classmethod
    def load(
        cls,
        model: Path,
        index: Path,
        corpus: Path,
        *,
        device: str = "auto",
        search: WantedSearch = "auto",
        living: LivingCorpus | None = None,
        capacity: int = CAPACITY,
        deadline_s: float = DEADLINE_S,
    ) -> Engine:
        """Read the three folders; `RealmError` if one is missing or damaged, or they do not match.

        search: "exact", "ivf" (by the index's stored approximate search), "auto" (as the index was built), or a server
        of Milvus, which is filled with what it lacks.
        living: a state above index and corpus, from which others can be taken up later (`take_up`).

        Other engines of this process have priority: while they answer, loading takes up to ten times as long.
        """
        place = pick_device(device)
        loaded = compute_aside(partial(_load_model, model, place))
        served, name = compute_aside(partial(open_corpus, loaded, index, corpus, living, place, search))
        return cls(
            loaded,
            served,
            index=name,
            name=str((loaded.about or {}).get("name", model.name)),
            capacity=capacity,
            deadline_s=deadline_s,
        )

    @property
    def corpus_id(self) -> str:
        """The id of the corpus that is searched now: NAME@SNAPSHOT, and +STATE where documents were edited."""
        return self._corpus.id

    def take_up(self, state: LivingState) -> None:
        """Answer from another state of the living corpus, from the next batch of questions on.

        Their common files stay in memory, so this takes milliseconds. `RealmError` if its files are damaged.
        """
        with torch.inference_mode():
            self._corpus = ServedCorpus.of_index(self._corpus.index.at(state))

    def tried(self, changes: Changes, embed: Embed) -> ServedCorpus:
        """The corpus as an edit would make it, only in memory; `ask` answers from it if it is given as `corpus`.

        `RealmError` as of `edit`.
        """
        with torch.inference_mode():
            return ServedCorpus.of_index(self._corpus.index.tried(changes, embed))

    def ask(
        self,
        question: str,
        *,
        k: int | None = None,
        exclude: Sequence[str] = (),
        scope: Scope | None = None,
        normalisation: Normalisation | None = None,
        as_typed: bool = False,
        corpus: ServedCorpus | None = None,
        listens: Callable[[], bool] | None = None,
    ) -> Answer:
        """The answer to a question from the k best blocks, without those with the ids `exclude`.

        k:        None: as many as the model reads over this corpus.
        scope:    the documents to search, and the weights of their collections; None: all alike.
        as_typed: do not correct the spelling (`Spelling`).
        corpus:   a `tried` one; None: the served one.
        listens:  whether the client is still connected, called in another thread; if not, its request is dropped,
                  unless it is read in one batch with those of others.
        """
        wanted = Wanted(self.config.k if k is None else k, tuple(exclude), scope)
        request = self._ask_request(question, wanted, normalisation, read=True, as_typed=as_typed)
        answer = self._queue.submit(replace(request, corpus=corpus), listens=listens)
        assert isinstance(answer, Answer)
        return answer

    def retrieve(
        self,
        question: str,
        *,
        k: int | None = None,
        exclude: Sequence[str] = (),
        scope: Scope | None = None,
        as_typed: bool = False,
        listens: Callable[[], bool] | None = None,
        max_k: int = MAX_K,
    ) -> Retrieved:
        """The k best blocks, without reading them. k, scope, as_typed, listens: as for `ask`."""
        wanted = Wanted(self.config.k if k is None else k, tuple(exclude), scope)
        request = self._ask_request(question, wanted, None, read=False, as_typed=as_typed, max_k=max_k)
        found = self._queue.submit(request, listens=listens)
        assert isinstance(found, Retrieved)
        return found

    def rank_holding(self, question: str, answers: Sequence[str], *, among: int, **options: Any) -> int | None:
        """The rank (from 1) of the best block that contains one of the answers; None if none of the first `among` does.

        options: those of `retrieve`.
        """
        found = self.retrieve(question, k=among, max_k=among, **options)
        return next((block.rank for block in found.blocks if holds_answer(block.text, answers)), None)

    @property
    def has_encoder(self) -> bool:
        """Whether the model has an encoder of masked sentences."""
        return self._has_encoder

    def fill(
        self,
        sentence: str,
        *,
        k: int = 8,
        exclude: Sequence[str] = (),
        scope: Scope | None = None,
        truth: str | None = None,
        listens: Callable[[], bool] | None = None,
    ) -> Filling:
        """Predictions for the masks of `sentence`: from the null block, the k − 1 best blocks, and all together.

        Without `has_encoder` the reader fills a single gap from the k − 1 best blocks. truth: the correct words, whose
        probabilities are computed as well. scope, listens: as for `ask`.
        """
        text = _checked_text(sentence, "sentence")
        truth = None if truth is None else _checked_text(truth, "truth")
        if not 2 <= k <= MAX_K:
            raise RealmError(f"k must be from 2 (a block besides the null block) to {MAX_K}, not {k}.")
        if not self.has_encoder:
            gap = one_gap(text)
            answer = self.ask(as_question(gap), k=k - 1, exclude=exclude, scope=scope, as_typed=True, listens=listens)
            return filling_of(answer, gap, truth)
        request = _QueuedSentence(masked_sentence(text, truth), Wanted(k - 1, tuple(exclude), scope))
        filling = self._queue.submit(request, listens=listens)
        assert isinstance(filling, Filling)
        return filling

    @property
    def collections(self) -> dict[str, CollectionFacts]:
        """The collections that are searched now, by name."""
        return self._corpus.index.corpus.collections

    def warm_up(self) -> None:
        """Answer test requests outside of the queue, so that the first user does not wait for lazy initialisation."""
        requests: list[_Queued] = [QueuedRequest(self._ask_request("Is anyone there?", Wanted(1), None, read=True))]
        if self.has_encoder:
            requests.append(QueuedRequest(_QueuedSentence(masked_sentence("Is [MASK] there?", None), Wanted(1))))

        def serve_each() -> None:
            for queued in requests:
                self._serve_batch([queued])

        if self._on_processors:
            compute_aside(serve_each)
        else:
            serve_each()
        for queued in requests:
            queued.future.result()

    def close(self) -> None:
        """Answer the queued requests, then stop and release the memory. Later requests are refused."""
        self._queue.close()
        self._thread.join()
        for name in ("_query", "_reading", "_masks", "_corpus"):  # released even if the engine is still referenced
            self.__dict__.pop(name, None)
        wait_for_quiet(_MAX_RELEASE_DELAY_S)  # releasing delays requests of another engine by a tenth of a second
        release_memory()

    @property
    def waiting(self) -> int:
        """The number of queued requests, without those that are being computed."""
        return len(self._queue)

    def _ask_request(
        self,
        question: str,
        wanted: Wanted,
        normalisation: Normalisation | None,
        *,
        read: bool,
        as_typed: bool = False,
        max_k: int = MAX_K,
    ) -> _QueuedQuestion:
        text = _checked_text(question, "question")
        if not 1 <= wanted.k <= max_k:
            raise RealmError(f"k must be from 1 to {max_k}, not {wanted.k}.")
        normalisation = normalisation or self.config.normalisation
        if normalisation not in self.config.normalisations:
            allowed = ", ".join(self.config.normalisations)
            raise RealmError(f"normalisation must be one of {allowed}, not {normalisation!r}.")
        return _QueuedQuestion(text, wanted, as_typed, normalisation, read)

    # ---- the engine's own thread

    def _serve(self) -> None:
        while (batch := self._queue.take(BATCH_QUESTIONS)) is not None:
            began = time.perf_counter()
            if self._on_processors:
                compute(partial(self._serve_batch, batch))
            else:
                self._serve_batch(batch)
            if batch:
                self._queue.record_batch(time.perf_counter() - began, len(batch))
            try:
                if self.on_batch is not None:
                    self.on_batch(len(batch), len(self._queue))
            except Exception:  # an error in the callback must not stop the engine
                log.exception("The callback on_batch failed")

    def _serve_batch(self, batch: Sequence[_Queued]) -> None:
        try:
            with torch.inference_mode():
                questions = [
                    (queued, queued.request) for queued in batch if isinstance(queued.request, _QueuedQuestion)
                ]
                if questions:
                    self._answer(questions)
                for queued in batch:
                    if isinstance(queued.request, _QueuedSentence):  # one at a time: it needs logits of all words
                        self._fill(queued, queued.request)
        except BaseException as error:  # each request is tried again by itself, so that only the faulty one fails
            unanswered = [queued for queued in batch if not queued.future.done()]
            for queued in unanswered:
                if len(batch) > 1 and not isinstance(error, EngineUnavailable):  # no fault of a request
                    self._serve_batch([queued])
                else:
                    queued.future.set_exception(error)

    def _answer(self, batch: Sequence[tuple[_Queued, _QueuedQuestion]]) -> None:
        served = self._corpus
        of_corpus: dict[ServedCorpus, list[tuple[_Queued, _QueuedQuestion]]] = {served: []}  # the served one first
        for queued, asked in batch:
            of_corpus.setdefault(asked.corpus or served, []).append((queued, asked))
        for corpus, own in of_corpus.items():
            if own:
                self._answer_from(corpus, own)

    def _answer_from(self, corpus: ServedCorpus, batch: Sequence[tuple[_Queued, _QueuedQuestion]]) -> None:
        questions = [request for _, request in batch]
        started = time.perf_counter()
        texts, queries_BD = as_meant(corpus, questions, self._query, self.config)
        embedded = time.perf_counter()
        temperature = self.config.prior_temperature
        found = best(corpus, texts, queries_BD, [q.wanted for q in questions], temperature, self.config.lexical_weight)
        results = [
            SearchResult(text if q.as_typed else read_as(text, blocks), blocks, scores)
            for q, text, (blocks, scores) in zip(questions, texts, found, strict=True)
        ]
        searched = time.perf_counter()
        for (queued, q), result in zip(batch, results, strict=True):
            if not q.read:
                queued.future.set_result(retrieved(corpus, q.text, result, temperature))
        to_read = [(queued, q, result) for (queued, q), result in zip(batch, results, strict=True) if q.read]
        with closing(self._reading.read([result for *_, result in to_read])) as read:
            # Each question is answered as soon as its blocks have been read.
            for position, (queued, q, result) in enumerate(to_read):
                if not any(waiting.listens() for waiting, *_ in to_read[position:]):
                    for waiting, *_ in to_read[position:]:
                        waiting.drop()
                    break  # closes `read`, which reads ahead
                blocks = next(read)
                read_at = time.perf_counter()
                answer = self._reading.answer(result.question, blocks, q.normalisation)
                done = time.perf_counter()
                collections = {block.block_id: corpus.collection_of(block) for block in result.blocks}
                evidence = tuple(replace(one, collection=collections[one.block_id]) for one in answer.evidence)
                meant = "" if result.question == q.text else result.question
                answer = replace(answer, question=q.text, evidence=evidence, corpus=corpus.id, read_as=meant)
                times = _times(queued.queued_at, started, embedded, searched, read_at, done)
                queued.future.set_result(replace(answer, **times))

    def _fill(self, queued: _Queued, request: _QueuedSentence) -> None:
        assert self._masks is not None
        corpus = self._corpus
        started = time.perf_counter()
        query_D, null_score = self._masks.embed(request.masked)
        embedded = time.perf_counter()
        [(blocks, scores)] = nearest(corpus, query_D.unsqueeze(0), [request.wanted], temperature=1.0)
        searched = time.perf_counter()
        log_token_KJV = self._masks.read(request.masked, blocks)
        read_at = time.perf_counter()
        filling = self._masks.filling(request.masked, blocks, [null_score, *scores], log_token_KJV)
        done = time.perf_counter()
        times = _times(queued.queued_at, started, embedded, searched, read_at, done)
        queued.future.set_result(replace(filling, corpus=corpus.id, **times))


def _load_model(folder: Path, device: torch.device) -> Model:
    """A model, ready for inference."""
    loaded = load_model(folder, frozen=fast_dtype(device))
    for_filling = () if loaded.encoder is None else (loaded.block, loaded.encoder)
    for part in (loaded.query, loaded.reader, *for_filling):
        part.for_inference(device)
    return loaded


def _times(*marks_s: float) -> dict[str, Any]:
    """latency_ms and timings_ms of a result, from the moments between which a request's stages lie."""
    spent_ms = {stage: (end - start) * 1e3 for stage, (start, end) in zip(_STAGES, pairwise(marks_s), strict=True)}
    return {"latency_ms": (marks_s[-1] - marks_s[0]) * 1e3, "timings_ms": spent_ms}


def _checked_text(text: str, name: str) -> str:
    if not text.strip():
        raise RealmError(f"The {name} is empty.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise RealmError(f"The {name} is not valid text: it contains a lone surrogate.")
    return text.strip()
