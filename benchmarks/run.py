"""`make bench`: all comparisons and the web server's memory, in one run; a table, and JSON in results/latest.json."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks import answering, any_size, indexing, pretraining, web
from benchmarks.inputs import FULL, QUICK, add_folders, prepare, with_status
from benchmarks.machine import describe, matrix_rates, now
from benchmarks.peers import LIBRARIES, REALM, PeerProcess
from benchmarks.report import table
from benchmarks.rounds import apart
from realm_core.files import read_json, write_json
from realm_core.model.base import base_architecture
from realm_core.model.identity import read_hashes

RESULTS = Path(__file__).resolve().parent / "results"
THEIR_PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "sentence-transformers",
    "haystack-ai",
    "transformers-haystack",
)
_BATCH_WORDPIECES = 2048  # of a batch while an index is built on a CPU: the height of the encoder's products
_QUIET_LOAD = 0.5


@with_status
def main(argv: Sequence[str] | None = None) -> None:
    """Prepare, measure everything, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run? The figures mean nothing")
    add_folders(parser)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of each side (default: torch's)")
    parser.add_argument("--output", type=Path, help="JSON file (default: benchmarks/results/latest.json)")
    arguments = parser.parse_args(argv)
    size = QUICK if arguments.quick else FULL
    inputs = prepare(arguments.model, arguments.corpus, arguments.index)
    for environment in (LIBRARIES, REALM):
        environment.ensure()
    torch.set_num_threads(arguments.threads)
    machine = describe()
    if os.getloadavg()[0] > _QUIET_LOAD:
        print(f"The machine is busy (load {os.getloadavg()[0]:.1f}); figures from it mean little.", flush=True)
    config = read_json(inputs.model / "config.json")["model"]
    bert = base_architecture(config["base"])
    _say("how fast the machine multiplies matrices")
    rates = apart(lambda: matrix_rates(bert, rows=_BATCH_WORDPIECES, large=size.peak_large, seconds=size.peak_s))
    with PeerProcess(LIBRARIES) as peer:
        their_versions = peer.call("start", threads=arguments.threads, packages=THEIR_PACKAGES)
        _say("building an index")
        index = apart(lambda: indexing.measure(inputs, peer, size, rates))
        _say("answering")
        answers = answering.measure(inputs, peer, size)
    _say("pre-training")
    with PeerProcess(REALM) as peer:
        training = apart(lambda: pretraining.measure(inputs, peer, size, rates, arguments.threads))
    _say("approximate search")
    with tempfile.TemporaryDirectory() as folder:
        approximate = any_size.measure(size.vectors, Path(folder), arguments.threads)
    _say("the web server")
    server = web.measure(inputs, size, arguments.threads)
    results = {
        "format": 1,
        "created": now(),
        "quick": arguments.quick,
        "machine": machine,
        "versions_theirs": their_versions,
        "model_hash": read_hashes(inputs.model)[0],
        "corpus": read_json(inputs.corpus / "manifest.json")["snapshot_id"],
        "matrix_rates": rates,
        "indexing": index,
        "answering": answers,
        "pretraining": training,
        "any_size": approximate,
        "web": server,
    }
    print(table(results))
    output = arguments.output or RESULTS / ("quick.local.json" if arguments.quick else "latest.json")
    output.parent.mkdir(parents=True, exist_ok=True)
    write_json(output, _rounded(results))
    print(f"\nWritten to {output}")


def _say(what: str) -> None:
    print(f"Measuring: {what}", flush=True)


def _rounded(value: object) -> object:
    """Floats with the six digits that could mean anything."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
