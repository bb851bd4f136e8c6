"""Question → answer with provenance. The only door that the web needs.

    ask  → (a batch of waiting questions) embed → search → read the k blocks of all → marginalise, each its own
    fill → the same for one masked sentence, with the parts of the model that pre-training made

Thread-safe: askers wait in a bounded line (`waiting.py`), one thread computes (`computing.py`). Questions that arrive
while a batch is being computed form the next one, so that concurrent questions share the machine instead of fighting
for it.

Legend: B questions, D dimension.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from realm_core.computing import compute, compute_aside, wait_for_quiet
from realm_core.corpus.records import Block
from realm_core.corpus.store import Snapshot
from realm_core.errors import CannotFill, RealmError
from realm_core.index.embedding import embed
from realm_core.index.generation import Generation
from realm_core.index.retriever import check_fit
from realm_core.index.search import ExactSearch, FaissSearch, Search, search_without
from realm_core.model.checkpoint import Model, load_model
from realm_core.model.config import Normalisation
from realm_core.model.device import fast_dtype, pick_device
from realm_core.model.marginal import prior
from realm_core.questions.answers import holds_answer
from realm_core.serving.filled import Filling
from realm_core.serving.mask_reading import MaskedSentence, MaskReading, masked_sentence
from realm_core.serving.memory import give_back
from realm_core.serving.provenance import Answer
from realm_core.serving.reading import BlockReading, Found
from realm_core.serving.waiting import Line, Waiter
from realm_core.settings import MAX_K
from realm_core.text.joins import join_query
from realm_core.text.wordpieces import Wordpieces

log = logging.getLogger(__name__)

BATCH_QUESTIONS = 64  # at most; each is answered as soon as its own blocks have been read
CAPACITY = 128  # questions that may wait
DEADLINE_S = 600.0
_QUIET_WITHIN_S = 60.0  # what a closed engine leaves is cleared away later at the latest


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
class _Question:
    text: str
    k: int
    exclude: tuple[str, ...]
    normalisation: Normalisation
    read: bool


@dataclass(frozen=True)
class _Sentence:
    masked: MaskedSentence
    k: int
    exclude: tuple[str, ...]


_Asked = Waiter[_Question | _Sentence]


class Engine:
    """A model, an index and a corpus that fit together, ready to answer.

    capacity:   questions that may wait; deadline_s: seconds in which one is answered. Beyond either, whoever asks gets
                `EngineUnavailable`.
    on_batch:   called behind each batch with the number of its questions (0: all who waited were gone) and of those who
                wait.
    """

    def __init__(
        self,
        model: Model,
        generation: Generation,
        snapshot: Snapshot,
        *,
        search: Search,
        name: str,
        capacity: int = CAPACITY,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.snapshot = snapshot
        self.model_id = f"{name}@{model.hash}"
        self.index_id = generation.name
        self.corpus_id = f"{snapshot.manifest['name']}@{snapshot.snapshot_id}"
        self.config = model.config
        self.reader_product = model.reader.product
        made_from = {"model": self.model_id, "index": self.index_id, "corpus": self.corpus_id}
        self._query = model.query
        self._reading = BlockReading(model.reader, model.config, **made_from)
        self._on_processors = self._reading.device.type == "cpu"
        # For questions alone the block embedder is not needed, nor kept.
        self._can_fill = model.encoder is not None
        self._masks = None if model.encoder is None else MaskReading(model.block, model.encoder, **made_from)
        self._search = search
        self._wordpieces = Wordpieces.default()
        self._line: Line[_Question | _Sentence] = Line(capacity, deadline_s)
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
        search: str = "exact",
        capacity: int = CAPACITY,
        deadline_s: float = DEADLINE_S,
    ) -> Engine:
        """Read the three folders; `RealmError` when one is missing or damaged or they do not fit together.

        search: "exact", or a FAISS factory string such as "HNSW32" (approximate).

        Engines of this process go on answering meanwhile; as long as they do, it takes up to ten times as long.
        """
        place = pick_device(device)
        loaded, generation, snapshot = compute_aside(partial(_load_parts, model, index, corpus, place))
        if search == "exact":
            finder: Search = compute_aside(partial(ExactSearch, generation.vectors_ND, place))
        else:  # one call, which may take minutes, in threads of its own
            finder = FaissSearch(generation.vectors_ND, search)
        name = str((loaded.about or {}).get("name", model.name))
        return cls(loaded, generation, snapshot, search=finder, name=name, capacity=capacity, deadline_s=deadline_s)

    def ask(
        self,
        question: str,
        *,
        k: int = 5,
        exclude: Sequence[str] = (),
        normalisation: Normalisation | None = None,
        listens: Callable[[], bool] | None = None,
    ) -> Answer:
        """The answer to a question from the k best blocks, those with the ids `exclude` left aside.

        listens: says, in another thread, whether whoever asked is still there; for who is gone nothing is computed.
        """
        answer = self._line.ask(self._question(question, k, exclude, normalisation, read=True), listens=listens)
        assert isinstance(answer, Answer)
        return answer

    def retrieve(
        self, question: str, *, k: int = 5, exclude: Sequence[str] = (), listens: Callable[[], bool] | None = None
    ) -> list[RetrievedBlock]:
        """The k best blocks, without reading them. listens: as of `ask`."""
        blocks = self._line.ask(self._question(question, k, exclude, None, read=False), listens=listens)
        assert isinstance(blocks, list)
        return blocks

    def rank_holding(
        self,
        question: str,
        answers: Sequence[str],
        *,
        among: int,
        exclude: Sequence[str] = (),
        listens: Callable[[], bool] | None = None,
    ) -> int | None:
        """The rank, 1 is the best, of the first block that holds one of the answers; None: none of the first `among`.

        exclude, listens: as of `ask`.
        """
        wanted = self._question(question, among, exclude, None, read=False, most=among)
        blocks = self._line.ask(wanted, listens=listens)
        assert isinstance(blocks, list)
        return next((block.rank for block in blocks if holds_answer(block.text, answers)), None)

    @property
    def can_fill(self) -> bool:
        """Whether the model has an encoder of masked sentences."""
        return self._can_fill

    def fill(
        self,
        sentence: str,
        *,
        k: int = 8,
        exclude: Sequence[str] = (),
        truth: str | None = None,
        listens: Callable[[], bool] | None = None,
    ) -> Filling:
        """What fills the masks of `sentence`: from the null block, the k − 1 best blocks, and all of them together.

        truth: the words that stand there, whose probabilities are wanted. listens: as of `ask`.
        `CannotFill` where `can_fill` is false.
        """
        if not self.can_fill:
            raise CannotFill(
                f"The model {self.model_id} has no encoder of masked sentences; it answers questions only."
            )
        text = _checked_text(sentence, "sentence")
        truth = None if truth is None else _checked_text(truth, "truth")
        if not 2 <= k <= MAX_K:
            raise RealmError(f"k must be from 2 (a block besides the null block) to {MAX_K}, not {k}.")
        filling = self._line.ask(_Sentence(masked_sentence(text, truth), k, tuple(exclude)), listens=listens)
        assert isinstance(filling, Filling)
        return filling

    def block(self, block_id: str) -> Block | None:
        """A block of the corpus by its id."""
        row = self.snapshot.row_of(block_id)
        return None if row is None else self.snapshot.block(row)

    def warm_up(self) -> None:
        """Answer something, aside: the first person shall not wait for what is made on first use."""
        asked: list[_Asked] = [Waiter(self._question("Is anyone there?", 1, (), None, read=True))]
        if self.can_fill:
            asked.append(Waiter(_Sentence(masked_sentence("Is [MASK] there?", None), 2, ())))

        def serve_each() -> None:
            for one in asked:
                self._serve_batch([one])

        if self._on_processors:
            compute_aside(serve_each)
        else:
            serve_each()
        for one in asked:
            one.future.result()

    def close(self) -> None:
        """Answer what is waiting, then stop and give the memory back. Questions asked later are refused."""
        self._line.close()
        self._thread.join()
        for name in ("_query", "_reading", "_masks", "_search"):  # also where somebody still holds on to the engine
            self.__dict__.pop(name, None)
        wait_for_quiet(_QUIET_WITHIN_S)  # those whom another engine answers would wait for a tenth of a second
        give_back()

    @property
    def waiting(self) -> int:
        """How many questions and sentences wait, those apart that are being computed."""
        return len(self._line)

    def _question(
        self,
        question: str,
        k: int,
        exclude: Sequence[str],
        normalisation: Normalisation | None,
        *,
        read: bool,
        most: int = MAX_K,
    ) -> _Question:
        text = _checked_text(question, "question")
        if not 1 <= k <= most:
            raise RealmError(f"k must be from 1 to {most}, not {k}.")
        normalisation = normalisation or self.config.normalisation
        if normalisation not in self.config.normalisations:
            allowed = ", ".join(self.config.normalisations)
            raise RealmError(f"normalisation must be one of {allowed}, not {normalisation!r}.")
        return _Question(text, k, tuple(exclude), normalisation, read)

    # ── The engine's own thread ─────────────────────────────────────────────────────────────────────────────────────

    def _serve(self) -> None:
        while (batch := self._line.take(BATCH_QUESTIONS)) is not None:
            began = time.perf_counter()
            if self._on_processors:
                compute(partial(self._serve_batch, batch))
            else:
                self._serve_batch(batch)
            if batch:
                self._line.took(time.perf_counter() - began, len(batch))
            try:
                if self.on_batch is not None:
                    self.on_batch(len(batch), len(self._line))
            except Exception:  # who only watches must not end the answering
                log.exception("Whoever watches the batches failed")

    def _serve_batch(self, batch: Sequence[_Asked]) -> None:
        try:
            with torch.inference_mode():
                questions = [(asked, asked.wanted) for asked in batch if isinstance(asked.wanted, _Question)]
                if questions:
                    self._answer(questions)
                for asked in batch:
                    if isinstance(
                        asked.wanted, _Sentence
                    ):  # each has many blocks, all with all words: a batch by itself
                        self._fill(asked, asked.wanted)
        except BaseException as error:  # whoever asked must hear of it, and nobody else: the others are asked again
            unanswered = [asked for asked in batch if not asked.future.done()]
            for asked in unanswered:
                if len(batch) > 1:
                    self._serve_batch([asked])
                else:
                    asked.future.set_exception(error)

    def _answer(self, batch: Sequence[tuple[_Asked, _Question]]) -> None:
        questions = [question for _, question in batch]
        started = time.perf_counter()
        joined = join_query(self._wordpieces, [q.text for q in questions], self.config.query_wordpieces)
        queries_BD = embed(self._query, joined)
        embedded = time.perf_counter()
        nearest = self._nearest(queries_BD, [q.k for q in questions], [q.exclude for q in questions])
        found = [Found(q.text, *own) for q, own in zip(questions, nearest, strict=True)]
        searched = time.perf_counter()
        for (asked, q), own in zip(batch, found, strict=True):
            if not q.read:
                asked.future.set_result(_retrieved(own, self.config.prior_temperature))
        reading = [(asked, q, own) for (asked, q), own in zip(batch, found, strict=True) if q.read]
        with closing(self._reading.read([own for *_, own in reading])) as read:
            # Each is answered as soon as its own blocks have been read.
            for (asked, q, own), blocks in zip(reading, read, strict=True):
                read_at = time.perf_counter()
                answer = self._reading.answer(own.question, blocks, q.normalisation)
                done = time.perf_counter()
                took_ms = {
                    "wait": (started - asked.asked_at) * 1e3,
                    "embed": (embedded - started) * 1e3,
                    "search": (searched - embedded) * 1e3,
                    "read": (read_at - searched) * 1e3,
                    "marginalise": (done - read_at) * 1e3,
                }
                asked.future.set_result(replace(answer, latency_ms=(done - asked.asked_at) * 1e3, timings_ms=took_ms))

    def _fill(self, asked: _Asked, request: _Sentence) -> None:
        assert self._masks is not None
        started = time.perf_counter()
        query_D, null_score = self._masks.embed(request.masked)
        embedded = time.perf_counter()
        [(blocks, scores)] = self._nearest(query_D.unsqueeze(0), [request.k - 1], [request.exclude])
        searched = time.perf_counter()
        log_token_KJV = self._masks.read(request.masked, blocks)
        read_at = time.perf_counter()
        filling = self._masks.filling(request.masked, blocks, [null_score, *scores], log_token_KJV)
        done = time.perf_counter()
        timings_ms = {
            "wait": (started - asked.asked_at) * 1e3,
            "embed": (embedded - started) * 1e3,
            "search": (searched - embedded) * 1e3,
            "read": (read_at - searched) * 1e3,
            "marginalise": (done - read_at) * 1e3,
        }
        asked.future.set_result(replace(filling, latency_ms=(done - asked.asked_at) * 1e3, timings_ms=timings_ms))

    def _nearest(
        self, queries_BD: torch.Tensor, ks: Sequence[int], excludes: Sequence[Collection[str]]
    ) -> list[tuple[list[Block], list[float]]]:
        """For each query its k best blocks and their scores, those with the ids `exclude` left aside."""
        rows = [
            {row for block_id in exclude if (row := self.snapshot.row_of(block_id)) is not None} for exclude in excludes
        ]
        return [
            ([self.snapshot.block(row) for row in own], scores)
            for own, scores in search_without(self._search, queries_BD, ks, rows)
        ]


def _load_parts(model: Path, index: Path, corpus: Path, device: torch.device) -> tuple[Model, Generation, Snapshot]:
    """A model, ready for inference, an index and a corpus that fit together."""
    loaded = load_model(model, frozen=fast_dtype(device))
    generation, snapshot = Generation.open(index), Snapshot.open(corpus)
    check_fit(loaded, generation, snapshot)
    snapshot.verify()  # the others are compared with their checksums as they are read; this one is mapped
    of_masks = () if loaded.encoder is None else (loaded.block, loaded.encoder)
    for part in (loaded.query, loaded.reader, *of_masks):
        part.for_inference(device)
    return loaded, generation, snapshot


def _checked_text(text: str, name: str) -> str:
    if not text.strip():
        raise RealmError(f"The {name} is empty.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise RealmError(f"The {name} is not valid text: it holds half a character (a lone surrogate).")
    return text.strip()


def _retrieved(found: Found, temperature: float) -> list[RetrievedBlock]:
    scores = [score / temperature for score in found.scores]
    priors = prior(scores) if scores else []
    return [
        RetrievedBlock(rank, b.block_id, b.title, b.text, b.section, b.url, score, weight)
        for rank, (b, score, weight) in enumerate(zip(found.blocks, scores, priors, strict=True), start=1)
    ]
