"""Answering: `Engine.ask`, retrieval included, against Haystack's extractive reader given the same blocks."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.exports import export_span_reader
from benchmarks.inputs import Inputs, Size
from benchmarks.peers import PeerProcess
from benchmarks.rounds import apart, latencies, ratios, run_rounds, summary
from realm_core.model.device import fast_dtype, pick_device
from realm_core.model.pairs import ReadingPair
from realm_core.model.reader import Reader
from realm_core.serving.engine import Engine
from realm_core.text.wordpieces import Wordpieces

OURS, THEIRS = "realm_core", "haystack"
K = 5
ASKERS = 8  # threads that ask at the same time


def measure(inputs: Inputs, peer: PeerProcess, size: Size) -> dict[str, Any]:
    """Latencies of `size.questions` questions a round, their ratio, and the rate with several askers."""
    questions = inputs.first_questions(size.questions)
    with _engine(inputs) as engine, _engine(inputs, int8=False) as plain:
        return _measure(engine, plain, inputs, questions, peer, size)


@contextmanager
def _engine(inputs: Inputs, *, int8: bool = True) -> Iterator[Engine]:
    """Ours as shipped, or, without int8, in the precision that theirs can have, too."""
    with patch.object(Reader, "allow_int8", int8):
        engine = Engine.load(inputs.model, inputs.index, inputs.corpus, device="cpu")
    try:
        engine.warm_up()
        yield engine
    finally:
        engine.close()


def _measure(
    engine: Engine, plain: Engine, inputs: Inputs, questions: list[str], peer: PeerProcess, size: Size
) -> dict[str, Any]:
    found = [engine.retrieve(question, k=K).blocks for question in questions]
    fast = str(fast_dtype(pick_device("cpu"))).removeprefix("torch.")
    their_dtypes = {THEIRS: "float32"} | ({} if fast == "float32" else {f"{THEIRS}, {fast}": fast})
    with tempfile.TemporaryDirectory() as folder:
        reader = Path(folder) / "reader"
        apart(partial(export_span_reader, inputs.model, reader))
        for name, dtype in their_dtypes.items():
            peer.call("load_reader", name=name, folder=str(reader), dtype=dtype)
    readings = [
        {"question": question, "texts": [block.text for block in blocks]}
        for question, blocks in zip(questions, found, strict=True)
    ]
    peer.call("give_readings", readings=readings)

    phases: dict[str, list[float]] = {}
    contestants: dict[str, Callable[[int], list[float]]] = {
        OURS: partial(_ask_ms, engine, questions, phases),
        f"{OURS}, {plain.reader_product}": partial(_ask_ms, plain, questions, {}),
        **{name: partial(_their_ms, peer, name) for name in their_dtypes},
    }
    for contestant in contestants.values():
        contestant(min(5, len(questions)))
    phases.clear()
    times_ms = run_rounds({name: partial(run, len(questions)) for name, run in contestants.items()}, size.rounds)
    dtypes = {OURS: engine.reader_product, f"{OURS}, {plain.reader_product}": plain.reader_product, **their_dtypes}
    medians_ms = {name: [statistics.median(times) for times in rounds] for name, rounds in times_ms.items()}
    return {
        "k": K,
        "questions": len(questions),
        "rounds": size.rounds,
        "wordpieces_per_question": statistics.mean(_our_wordpieces(engine, questions)),
        "wordpieces_per_question_theirs": statistics.mean(peer.call("reading_wordpieces", name=THEIRS)),
        "contestants": {
            name: {
                "dtype": dtypes[name],
                "median_ms": summary(medians_ms[name]),
                **latencies([time for times in rounds for time in times]),
            }
            for name, rounds in times_ms.items()
        },
        "phases_ms": {phase: statistics.median(values) for phase, values in phases.items()},
        "ratio": ratios(medians_ms[THEIRS], medians_ms[OURS]),
        "ratio_same_dtype": {
            dtype: ratios(medians_ms[name], medians_ms[f"{OURS}, {dtype}"])
            for name, dtype in their_dtypes.items()
            if dtype == plain.reader_product
        },
        "ratio_theirs_fastest": ratios(medians_ms[list(their_dtypes)[-1]], medians_ms[OURS]),
        "together": {
            "askers": ASKERS,
            "questions_per_s": summary([_questions_per_s(engine, questions) for _ in range(size.rounds)]),
        },
    }


def _ask_ms(engine: Engine, questions: list[str], phases: dict[str, list[float]], first: int) -> list[float]:
    """Milliseconds of each question; `phases` collects what the answers say of where the time went."""
    times_ms = []
    for question in questions[:first]:
        started_at = time.perf_counter()
        answer = engine.ask(question, k=K)
        times_ms.append((time.perf_counter() - started_at) * 1e3)
        for phase, spent_ms in answer.timings_ms.items():
            phases.setdefault(phase, []).append(spent_ms)
    return times_ms


def _their_ms(peer: PeerProcess, name: str, first: int) -> list[float]:
    times_ms: list[float] = peer.call("read", name=name, first=first)
    return times_ms


def _questions_per_s(engine: Engine, questions: list[str]) -> float:
    with ThreadPoolExecutor(ASKERS) as askers:
        started_at = time.perf_counter()
        list(askers.map(partial(engine.ask, k=K), questions))
        return len(questions) / (time.perf_counter() - started_at)


def _our_wordpieces(engine: Engine, questions: list[str]) -> list[int]:
    """Wordpieces that the reader reads for each question, all pairs together."""
    wordpieces = Wordpieces.default()
    counts = []
    for question in questions:
        blocks = engine.retrieve(question, k=K).blocks
        asked, *parts = wordpieces.encode([question, *(text for b in blocks for text in (b.title, b.text))])
        pairs = zip(parts[::2], parts[1::2], blocks, strict=True)
        counts.append(
            sum(len(ReadingPair.of(wordpieces, engine.config, asked, t, b, own.text).ids) for t, b, own in pairs)
        )
    return counts
