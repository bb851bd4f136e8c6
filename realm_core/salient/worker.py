"""Tagging some blocks: `python -m realm_core.salient.worker OPTIONS`, where OPTIONS is JSON, is a process that does.

A request is block rows as JSON, an answer two arrays in the .npy format: spans and labels, as in the cache.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from realm_core.corpus.store import Snapshot
from realm_core.runs.pipes import serve
from realm_core.salient.cache import LabelsM, SpansM5, spans_of
from realm_core.salient.spans import Tagger
from realm_core.salient.taggers import tagger_from

# Numerical libraries would start a thread for each processor in every process, and these then wait for one another.
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)


@dataclass(frozen=True)
class TaggerOptions:
    """What names a tagger on a command line; labels None: its default ones."""

    name: str = "spacy"
    labels: tuple[str, ...] | None = None
    with_dates: bool = True

    def tagger(self, snapshot: Snapshot | None = None) -> Tagger:
        return tagger_from(self.name, self.labels, with_dates=self.with_dates, snapshot=snapshot)


def command(corpus: str, options: TaggerOptions) -> list[str]:
    """How such a process is started: a module and its argument."""
    return ["realm_core.salient.worker", json.dumps({"corpus": corpus, **asdict(options)})]


def tag(snapshot: Snapshot, tagger: Tagger, rows: Sequence[int]) -> tuple[SpansM5, LabelsM]:
    """Spans [M, 5] and labels [M] of the blocks at `rows`, which ascend."""
    texts = [text for row in rows for text in snapshot.titles_texts(row, row + 1)[1]]
    return spans_of(tagger, rows, texts)


def to_array(content: bytes) -> NDArray[Any]:
    """An array that a worker answered with."""
    array: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    return array


def main() -> None:
    options = json.loads(sys.argv[1])
    snapshot = Snapshot.open(options.pop("corpus"))
    tagger = TaggerOptions(**options).tagger(snapshot)

    def answer(request: bytes) -> tuple[bytes, bytes]:
        spans, labels = tag(snapshot, tagger, json.loads(request))
        return _to_bytes(spans), _to_bytes(labels)

    serve(answer)


def _to_bytes(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


if __name__ == "__main__":
    main()
