"""The reader's BERT in ours and other runtimes: python -m benchmarks.reader_runtimes [--model FOLDER] [--questions N]

Every question is read (k = 5, retrieval excluded) once by each runtime, the order turning from question to question, by
the same pipeline: only the encoder is exchanged. Processor time is what counts, so that other work on the machine
matters little. Ctrl-C ends early; the questions read until then count.
"""

from __future__ import annotations

import argparse
import copy
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.inputs import TOP, add_folders, prepare, with_status
from benchmarks.machine import describe, now
from benchmarks.rounds import latencies
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import write_json
from realm_core.index.generation import Generation
from realm_core.index.retriever import DenseRetriever
from realm_core.model.checkpoint import Model, load_model
from realm_core.model.device import fast_dtype
from realm_core.model.inference import InferenceEncoder
from realm_core.model.marginal import log_reading
from realm_core.model.packed import Packed, encode
from realm_core.questions.answers import is_correct
from realm_core.questions.question_file import Question, read_questions
from realm_core.serving.reading import BlockReading, ReadBlock, SearchResult

RESULTS = Path(__file__).resolve().parent / "results"
SETS = [TOP / "models" / "questions" / f"visitor-{kind}-dev.jsonl" for kind in ("plain", "casual")]
EXACT = "onnxruntime float32"  # equal to torch's float32 up to rounding; a test compares them
OURS = "realm_core int8"
K = 5
_THEIRS = ("onnx", "onnxruntime", "openvino")
_LEAST_LOG_PROBABILITY = math.log(1e-3)  # of spans whose log probabilities are compared

Encoder = Callable[[Packed], Tensor]


@dataclass
class Runtime:
    """An encoder with what was measured. load_s: processor seconds."""

    encoder: Encoder
    load_s: float
    processor_ms: list[float] = field(default_factory=list)
    wall_ms: list[float] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)
    differences: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """What is written."""
        return {
            "processor": latencies(self.processor_ms),
            "wall": latencies(self.wall_ms),
            "load_s": self.load_s,
            "right": sum(self.right),
            **({"log_probability_difference": _spread(self.differences)} if self.differences else {}),
        }


@with_status
def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader_runtimes", description=__doc__)
    add_folders(parser)
    parser.add_argument("--questions", type=int, default=100, help="of the visitors' development sets, mixed")
    parser.add_argument("--threads", type=int, default=1, help="that read a question's blocks (default: 1)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="runtimes to measure, by their names in the table")
    parser.add_argument("--output", type=Path, help="JSON file (default: results/reader-runtimes-MODEL.json)")
    arguments = parser.parse_args(argv)
    inputs = prepare(arguments.model, arguments.corpus, arguments.index)
    torch.set_num_threads(arguments.threads)
    questions = mixed(SETS, arguments.questions)
    with tempfile.TemporaryDirectory() as folder:
        results = measure(*inputs.folders, questions, Path(folder), arguments.only)
    print(table(results))
    write_json(arguments.output or RESULTS / f"reader-runtimes-{inputs.model.name}.json", results)


def measure(
    model_folder: Path,
    corpus: Path,
    index: Path,
    questions: Sequence[Question],
    folder: Path,
    only: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Figures of each runtime over the same questions. folder: for the graphs."""
    model, snapshot = load_model(model_folder), Snapshot.open(corpus)
    retriever = DenseRetriever(model, Generation.open(index))
    runtimes = _runtimes(model, folder, only)
    reading = BlockReading(model.reader, model.config, model="", index="", corpus="")
    load_at_start = describe()["load_at_start"]
    read = 0
    try:
        for number, question in enumerate(questions):
            ((rows,), (scores,)) = retriever.search([question.question], K)
            found = SearchResult(question.question, [snapshot.block(row) for row in rows], scores)
            turn = number % len(runtimes)
            names = [*list(runtimes)[turn:], *list(runtimes)[:turn]]
            if number == 0:  # the first reading of each pays for what is made once
                for name in names:
                    _read(model, reading, runtimes[name], found)
                    runtimes[name].processor_ms.clear()
                    runtimes[name].wall_ms.clear()
            blocks = {name: _read(model, reading, runtimes[name], found) for name in names}
            for name, own in blocks.items():
                answers = reading.answer(question.question, own, model.config.normalisation).answers
                right = bool(answers) and is_correct(answers[0].text, question.answers, question.answer_type)
                runtimes[name].right.append(right)
                if EXACT in blocks and name != EXACT:
                    runtimes[name].differences.append(largest_difference(model, own, blocks[EXACT]))
            read += 1
    except KeyboardInterrupt:
        print(f"Stopped after {read} questions.", file=sys.stderr)
    return {
        "format": 1,
        "created": now(),
        "machine": describe() | {"load_at_start": load_at_start},
        "versions_theirs": {package: version(package) for package in _THEIRS},
        "model_hash": model.hash,
        "k": K,
        "questions": read,
        "runtimes": {name: runtime.figures() for name, runtime in runtimes.items()},
    }


def mixed(sets: Sequence[Path], count: int) -> list[Question]:
    """`count` questions, spread evenly over the files."""
    questions = [question for path in sets for question in read_questions(path)]
    if len(questions) < count:
        raise RealmError(f"There are {len(questions)} questions, and {count} are asked.")
    return [questions[number * len(questions) // count] for number in range(count)]


def largest_difference(model: Model, blocks: Sequence[ReadBlock], exact: Sequence[ReadBlock]) -> float:
    """The largest difference of log p(span | x, z) over all spans with an exact probability of at least 0.001."""
    own, wanted = (torch.cat(list(_log_likelihoods(model, read))) for read in (blocks, exact))
    probable = wanted >= _LEAST_LOG_PROBABILITY
    return float((own - wanted)[probable].abs().max()) if probable.any() else 0.0


def _log_likelihoods(model: Model, blocks: Sequence[ReadBlock]) -> Iterator[Tensor]:
    for block in blocks:
        logits_11S = block.logits_LM.double().flatten()[None, None]
        yield log_reading(logits_11S, torch.zeros(1, 1).double(), model.config.normalisation)[1].flatten()


def _read(model: Model, reading: BlockReading, runtime: Runtime, found: SearchResult) -> list[ReadBlock]:
    model.reader._inference = runtime.encoder  # type: ignore[assignment]
    wall, processor = time.perf_counter(), time.process_time()
    (blocks,) = reading.read([found])
    runtime.processor_ms.append((time.process_time() - processor) * 1e3)
    runtime.wall_ms.append((time.perf_counter() - wall) * 1e3)
    return blocks


def _runtimes(model: Model, folder: Path, only: Sequence[str] | None) -> dict[str, Runtime]:
    """Each runtime by its name; `RealmError` where one is missing."""
    try:
        from benchmarks.onnx_reader import RuntimeEncoder, export, quantise
        from benchmarks.openvino_reader import OpenvinoEncoder, convert
    except ImportError as error:
        raise RealmError(f"{error.name} is missing: pip install -c constraints.txt {' '.join(_THEIRS)}.") from error
    bert = model.reader.bert
    dtype = fast_dtype(torch.device("cpu"))
    low = copy.deepcopy(bert).to(dtype)
    graphs = {
        "onnxruntime int8": folder / "int8.onnx",
        "onnxruntime int8, smoothed": folder / "smoothed-int8.onnx",
        EXACT: folder / "float32.onnx",
    }
    openvino_float32, openvino_int8 = folder / "float32.xml", folder / "int8.xml"
    loads: dict[str, Callable[[], Encoder]] = {
        OURS: partial(InferenceEncoder, low, int8=True),
        f"realm_core {dtype}".replace("torch.", ""): lambda: (
            InferenceEncoder(low) if InferenceEncoder.supports(low) else partial(encode, low)
        ),
        **{name: partial(RuntimeEncoder, bert, path) for name, path in graphs.items()},
        "openvino int8": partial(OpenvinoEncoder, bert, openvino_int8),
        "openvino int8, padded": partial(OpenvinoEncoder, bert, openvino_int8, padded=True),
        "openvino float32": partial(OpenvinoEncoder, bert, openvino_float32),
    }
    if dtype == torch.bfloat16:
        loads["realm_core float32"] = lambda: partial(encode, bert)
        loads["openvino bfloat16"] = partial(OpenvinoEncoder, bert, openvino_float32, precision="bf16")
    unknown = sorted(set(only or []) - set(loads))
    if unknown:
        raise RealmError(f"There is no runtime {unknown[0]!r}; there are: {', '.join(loads)}.")
    export(bert, graphs[EXACT])
    quantise(graphs[EXACT], graphs["onnxruntime int8"])
    export(bert, folder / "smoothed.onnx", smoothed=True)
    quantise(folder / "smoothed.onnx", graphs["onnxruntime int8, smoothed"])
    convert(bert, openvino_float32)
    convert(bert, openvino_int8, int8=True)
    return {name: _loaded(load) for name, load in loads.items() if not only or name in only}


def _loaded(load: Callable[[], Encoder]) -> Runtime:
    processor = time.process_time()
    with torch.no_grad():
        encoder = load()
    return Runtime(encoder, time.process_time() - processor)


def _spread(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {"mean": statistics.fmean(ordered), "q99": ordered[math.ceil(len(ordered) * 0.99) - 1]}


def table(results: dict[str, Any]) -> str:
    """The figures as lines of a terminal."""
    lines = [
        f"{results['questions']} questions, k = {results['k']}, {results['machine']['threads']} threads, "
        f"load {results['machine']['load_at_start']} at start",
        f"{'':<28} {'processor ms':>18} {'wall ms':>18} {'load s':>7} {'right':>6}  log p − exact",
        f"{'':<28} {'p50':>9} {'p95':>8} {'p50':>9} {'p95':>8} {'':>7} {'':>6}  {'mean':>6} {'q99':>6}",
    ]
    for name, own in results["runtimes"].items():
        difference = own.get("log_probability_difference")
        lines.append(
            f"{name:<28} {own['processor']['p50_ms']:>9.1f} {own['processor']['p95_ms']:>8.1f} "
            f"{own['wall']['p50_ms']:>9.1f} {own['wall']['p95_ms']:>8.1f} {own['load_s']:>7.2f} "
            f"{own['right']:>6}" + (f"  {difference['mean']:>6.3f} {difference['q99']:>6.3f}" if difference else "")
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
