"""The worker process that tags blocks: `python -m realm_core.salient.worker OPTIONS`, where OPTIONS is JSON.

A request is block rows as JSON; a response is two arrays in the .npy format, spans and labels, as in the cache.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from realm_core.corpus.store import Snapshot
from realm_core.runs.pipes import serve
from realm_core.salient.cache import LabelsM, SpansM5, salient_spans
from realm_core.salient.spans import Tagger
from realm_core.salient.taggers import TaggerOptions

# Otherwise numerical libraries start a thread per processor in every worker, and these compete.
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)


def command(corpus: str, options: TaggerOptions) -> list[str]:
    """Module and argument that start such a process."""
    return ["realm_core.salient.worker", json.dumps({"corpus": corpus, **asdict(options)})]


def tag(snapshot: Snapshot, tagger: Tagger, rows: Sequence[int]) -> tuple[SpansM5, LabelsM]:
    """Spans [M, 5] and labels [M] of the blocks at `rows`, which must ascend."""
    return salient_spans(tagger, rows, [snapshot.block(row).text for row in rows])


def to_array(content: bytes) -> NDArray[Any]:
    """An array of a worker's response."""
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
