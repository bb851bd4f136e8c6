"""Question → answer with provenance. The only door that the web needs.

    ask  → (a batch of waiting questions) embed → search → read the k blocks of all → marginalise, each its own
    fill → the same for one masked sentence, with the parts of the model that pre-training made

Thread-safe: askers wait on futures, one thread computes. Questions that arrive while a batch is being computed form
the next one, so that concurrent questions share the machine instead of fighting for it.

Legend: B questions, D dimension.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from realm_core.corpus.records import Block
from realm_core.corpus.store import Snapshot
from realm_core.errors import CannotFill, RealmError
from realm_core.filled import Filling
from realm_core.index.embedding import embed
from realm_core.index.generation import Generation
from realm_core.index.retriever import check_fit
from realm_core.index.search import ExactSearch, FaissSearch, Search, search_without
from realm_core.mask_reading import MaskedSentence, MaskReading, masked_sentence
from realm_core.memory import give_back
from realm_core.model.checkpoint import Model, load_model
from realm_core.model.device import pick_device
from realm_core.model.marginal import Normalisation, prior
from realm_core.provenance import Answer
from realm_core.reading import BlockReading, Found
from realm_core.text.joins import join_query
from realm_core.text.wordpieces import Wordpieces

MAX_BLOCKS = 50
_BATCH_QUESTIONS = 16
_LOADING_NICENESS = 5  # beside a thread that computes without a pause it gets a quarter of a processor


@dataclass(frozen=True)
class RetrievedBlock:
    """A block that search found. prior: softmax of the scores over the blocks returned."""

    rank: int
    block_id: str
    title: str
    text: str
    section: str
    url: str
    score: float
    prior: float


@dataclass(frozen=True)
class _Request:
    question: str
    k: int
    exclude: tuple[str, ...]
    normalisation: Normalisation
    read: bool
    asked_at: float
    future: Future[Answer | list[RetrievedBlock]]


@dataclass(frozen=True)
class _FillRequest:
    sentence: MaskedSentence
    k: int
    exclude: tuple[str, ...]
    asked_at: float
    future: Future[Filling]


class Engine:
    """A model, an index and a corpus that fit together, ready to answer."""

    def __init__(self, model: Model, generation: Generation, snapshot: Snapshot, *, search: Search, name: str) -> None:
        self.snapshot = snapshot
        self.model_id = f"{name}@{model.hash}"
        self.index_id = generation.name
        self.corpus_id = f"{snapshot.manifest['name']}@{snapshot.snapshot_id}"
        self.config = model.config
        self.reader_product = model.reader.product
        made_from = {"model": self.model_id, "index": self.index_id, "corpus": self.corpus_id}
        self._query = model.query
        self._reading = BlockReading(model.reader, model.config, **made_from)
        # For questions alone the block embedder is not needed, nor kept.
        self._can_fill = model.encoder is not None
        self._masks = None if model.encoder is None else MaskReading(model.block, model.encoder, **made_from)
        self._search = search
        self._wordpieces = Wordpieces.default()
        self._waiting: queue.SimpleQueue[_Request | _FillRequest | None] = queue.SimpleQueue()
        self._closed = False
        self._closing = threading.Lock()  # nothing is put into the queue behind the word that ends it
        self._thread = threading.Thread(target=self._serve, name="engine", daemon=True)
        self._thread.start()

    @classmethod
    def load(cls, model: Path, index: Path, corpus: Path, *, device: str = "auto", search: str = "exact") -> Engine:
        """Read the three folders; `RealmError` when one is missing or damaged or they do not fit together.

        search: "exact", or a FAISS factory string such as "HNSW32" (approximate).

        The work is done in a thread that ends. OpenMP keeps a team of threads for every thread that ever computed, and
        once all teams together outnumber the processors, each waits asleep instead of spinning: 73 instead of 53 ms a
        question on two cores, when the caller's team outlived the loading.
        That thread steps back behind others: another engine may be answering in this process.
        """
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="load", initializer=_step_back) as loader:
            parts = loader.submit(cls._load, model, index, corpus, device, search).result()
        # Here, because a thread inherits the priority of the one that starts it, and the engine's shall not step back.
        return cls(*parts[:3], search=parts[3], name=str((parts[0].about or {}).get("name", model.name)))

    @staticmethod
    def _load(
        model: Path, index: Path, corpus: Path, device: str, search: str
    ) -> tuple[Model, Generation, Snapshot, Search]:
        place = pick_device(device)
        loaded, generation, snapshot = load_model(model), Generation.open(index), Snapshot.open(corpus)
        check_fit(loaded, generation, snapshot)
        of_masks = () if loaded.encoder is None else (loaded.block, loaded.encoder)
        words = loaded.query.bert.embeddings.word_embeddings
        for part in (loaded.query, loaded.reader, *of_masks):
            part.for_inference(place)
            same = part.bert.embeddings.word_embeddings
            if torch.equal(words.weight, same.weight):
                same.weight = words.weight  # one copy of what no training changed
        finder: Search = (
            ExactSearch(generation.vectors_ND, place)
            if search == "exact"
            else FaissSearch(generation.vectors_ND, search)
        )
        return loaded, generation, snapshot, finder

    def ask(
        self,
        question: str,
        *,
        k: int = 5,
        exclude: Sequence[str] = (),
        normalisation: Normalisation | None = None,
    ) -> Answer:
        """The answer to a question from the k best blocks, those with the ids `exclude` left aside."""
        answer = self._submit(question, k, exclude, normalisation, read=True).result()
        assert isinstance(answer, Answer)
        return answer

    def retrieve(self, question: str, *, k: int = 5, exclude: Sequence[str] = ()) -> list[RetrievedBlock]:
        """The k best blocks, without reading them."""
        blocks = self._submit(question, k, exclude, None, read=False).result()
        assert isinstance(blocks, list)
        return blocks

    @property
    def can_fill(self) -> bool:
        """Whether the model has an encoder of masked sentences."""
        return self._can_fill

    def fill(self, sentence: str, *, k: int = 8, exclude: Sequence[str] = (), truth: str | None = None) -> Filling:
        """What fills the masks of `sentence`: from the null block, the k − 1 best blocks, and all of them together.

        truth: the words that stand there, whose probabilities are wanted. `CannotFill` where `can_fill` is false.
        """
        if not self.can_fill:
            raise CannotFill(
                f"The model {self.model_id} has no encoder of masked sentences; it answers questions only."
            )
        text = _checked_text(sentence, "sentence")
        truth = None if truth is None else _checked_text(truth, "truth")
        if not 2 <= k <= MAX_BLOCKS:
            raise RealmError(f"k must be from 2 (a block besides the null block) to {MAX_BLOCKS}, not {k}.")
        future: Future[Filling] = Future()
        self._put(_FillRequest(masked_sentence(text, truth), k, tuple(exclude), time.perf_counter(), future))
        return future.result()

    def block(self, block_id: str) -> Block | None:
        """A block of the corpus by its id."""
        row = self.snapshot.row_of(block_id)
        return None if row is None else self.snapshot.block(row)

    def warm_up(self) -> None:
        """Answer something, so that the first person does not wait for what is made on first use."""
        self.ask("Is anyone there?", k=min(5, len(self.snapshot)))
        if self.can_fill:
            self.fill("Is [MASK] there?", k=2)

    def close(self) -> None:
        """Answer what is waiting, then stop and give the memory back. Questions asked later are refused."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._waiting.put(None)
        self._thread.join()
        for name in ("_query", "_reading", "_masks", "_search"):  # also where somebody still holds on to the engine
            self.__dict__.pop(name, None)
        give_back()

    def _submit(
        self, question: str, k: int, exclude: Sequence[str], normalisation: Normalisation | None, *, read: bool
    ) -> Future[Answer | list[RetrievedBlock]]:
        text = _checked_text(question, "question")
        if not 1 <= k <= MAX_BLOCKS:
            raise RealmError(f"k must be from 1 to {MAX_BLOCKS}, not {k}.")
        normalisation = normalisation or self.config.normalisation
        if normalisation not in self.config.normalisations:
            allowed = ", ".join(self.config.normalisations)
            raise RealmError(f"normalisation must be one of {allowed}, not {normalisation!r}.")
        future: Future[Answer | list[RetrievedBlock]] = Future()
        self._put(_Request(text, k, tuple(exclude), normalisation, read, time.perf_counter(), future))
        return future

    def _put(self, request: _Request | _FillRequest) -> None:
        with self._closing:
            if self._closed:
                raise RealmError("This engine has been closed.")
            self._waiting.put(request)

    # ── The engine's own thread ─────────────────────────────────────────────────────────────────────────────────────

    def _serve(self) -> None:
        while True:
            request = self._waiting.get()
            if request is None:
                return
            batch, last = [request], False
            while len(batch) < _BATCH_QUESTIONS and not last:
                try:
                    following = self._waiting.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    last = True
                else:
                    batch.append(following)
            self._serve_batch(batch)
            if last:
                return

    def _serve_batch(self, batch: Sequence[_Request | _FillRequest]) -> None:
        try:
            with torch.inference_mode():
                if questions := [request for request in batch if isinstance(request, _Request)]:
                    self._answer(questions)
                for request in batch:
                    if isinstance(request, _FillRequest):  # each has many blocks, all with all words: a batch by itself
                        self._fill(request)
        except BaseException as error:  # whoever asked must hear of it, and nobody else: the others are asked again
            unanswered = [request for request in batch if not request.future.done()]
            for request in unanswered:
                if len(batch) > 1:
                    self._serve_batch([request])
                else:
                    request.future.set_exception(error)

    def _answer(self, batch: Sequence[_Request]) -> None:
        started = time.perf_counter()
        joined = join_query(self._wordpieces, [r.question for r in batch], self.config.query_wordpieces)
        queries_BD = embed(self._query, joined)
        embedded = time.perf_counter()
        found = [self._find(request, query_D) for request, query_D in zip(batch, queries_BD, strict=True)]
        searched = time.perf_counter()
        reading = [(request, own) for request, own in zip(batch, found, strict=True) if request.read]
        read = self._reading.read([own for _, own in reading])
        read_at = time.perf_counter()
        for request, own in zip(batch, found, strict=True):
            if not request.read:
                request.future.set_result(_retrieved(own))
        timings_ms = {
            "embed": (embedded - started) * 1e3,
            "search": (searched - embedded) * 1e3,
            "read": (read_at - searched) * 1e3,
        }
        for (request, _), blocks in zip(reading, read, strict=True):
            began = time.perf_counter()
            answer = self._reading.answer(request.question, blocks, request.normalisation)
            done = time.perf_counter()
            own_ms = {
                "wait": (started - request.asked_at) * 1e3,
                **timings_ms,
                "marginalise": (done - began) * 1e3,
            }
            request.future.set_result(replace(answer, latency_ms=(done - request.asked_at) * 1e3, timings_ms=own_ms))

    def _fill(self, request: _FillRequest) -> None:
        assert self._masks is not None
        started = time.perf_counter()
        query_D, null_score = self._masks.embed(request.sentence)
        embedded = time.perf_counter()
        blocks, scores = self._nearest(query_D, request.k - 1, request.exclude)
        searched = time.perf_counter()
        log_token_KJV = self._masks.read(request.sentence, blocks)
        read_at = time.perf_counter()
        filling = self._masks.filling(request.sentence, blocks, [null_score, *scores], log_token_KJV)
        done = time.perf_counter()
        timings_ms = {
            "wait": (started - request.asked_at) * 1e3,
            "embed": (embedded - started) * 1e3,
            "search": (searched - embedded) * 1e3,
            "read": (read_at - searched) * 1e3,
            "marginalise": (done - read_at) * 1e3,
        }
        request.future.set_result(replace(filling, latency_ms=(done - request.asked_at) * 1e3, timings_ms=timings_ms))

    def _find(self, request: _Request, query_D: torch.Tensor) -> Found:
        return Found(request.question, *self._nearest(query_D, request.k, request.exclude))

    def _nearest(self, query_D: torch.Tensor, k: int, exclude: Sequence[str]) -> tuple[list[Block], list[float]]:
        """The k best blocks and their scores, those with the ids `exclude` left aside."""
        excluded = {row for block_id in exclude if (row := self.snapshot.row_of(block_id)) is not None}
        rows, scores = search_without(self._search, query_D, k, excluded)
        return [self.snapshot.block(row) for row in rows], scores


def _step_back() -> None:
    """Let this thread, and those that it starts, have less of a busy processor than others; Linux alone can."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOADING_NICENESS)


def _checked_text(text: str, name: str) -> str:
    if not text.strip():
        raise RealmError(f"The {name} is empty.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise RealmError(f"The {name} is not valid text: it holds half a character (a lone surrogate).")
    return text.strip()


def _retrieved(found: Found) -> list[RetrievedBlock]:
    priors = prior(found.scores) if found.scores else []
    return [
        RetrievedBlock(rank, b.block_id, b.title, b.text, b.section, b.url, score, weight)
        for rank, (b, score, weight) in enumerate(zip(found.blocks, found.scores, priors, strict=True), start=1)
    ]
