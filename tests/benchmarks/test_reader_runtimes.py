"""The reader's BERT in ONNX Runtime and OpenVINO computes what ours does, and the benchmark says what it lacks."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from benchmarks import reader_runtimes
from benchmarks.reader_runtimes import EXACT, OURS, main, measure, mixed
from realm_core.model.bert import Architecture, Bert
from realm_core.model.packed import Packed, encode
from realm_core.questions.question_file import Question
from tests.tiny import tiny_deployment

needs_onnxruntime = pytest.mark.skipif(
    find_spec("onnxruntime") is None or find_spec("onnx") is None, reason="this machine has no ONNX Runtime"
)
needs_openvino = pytest.mark.skipif(find_spec("openvino") is None, reason="this machine has no OpenVINO")


def a_bert(*, buckets: int, width: int = 64) -> Bert:
    torch.manual_seed(1)
    config = Architecture(
        vocab_size=100,
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=2 * width,
        max_position_embeddings=64,
        relative_attention_num_buckets=buckets,
        initializer_range=0.2,
    )
    return Bert(config).eval()


@needs_onnxruntime
@pytest.mark.parametrize("buckets", [0, 32])
@pytest.mark.parametrize("smoothed", [False, True])
def test_the_graph_computes_what_ours_does(
    buckets: int, smoothed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks import onnx_reader

    bert, batch = a_bert(buckets=buckets), Packed.of([[5, 7, 9], list(range(10, 40)), [3]])
    largest = {
        module: torch.linspace(1, 30, module.in_features)
        for module in bert.modules()
        if isinstance(module, torch.nn.Linear)
    }
    monkeypatch.setattr(onnx_reader, "_largest_activations", lambda bert: largest)
    onnx_reader.export(bert, tmp_path / "float32.onnx", smoothed=smoothed)
    onnx_reader.quantise(tmp_path / "float32.onnx", tmp_path / "int8.onnx")
    with torch.inference_mode():
        wanted_TW = encode(bert, batch)
        plain_TW = onnx_reader.RuntimeEncoder(bert, tmp_path / "float32.onnx")(batch)
        int8_TW = onnx_reader.RuntimeEncoder(bert, tmp_path / "int8.onnx")(batch)
    assert (plain_TW - wanted_TW).abs().max() < 1e-4
    sums_are_exact = torch.cpu._is_vnni_supported()  # elsewhere the runtime's sums of two products may overflow
    assert torch.nn.functional.cosine_similarity(int8_TW, wanted_TW).min() > (0.97 if sums_are_exact else 0.95)
    assert not torch.equal(int8_TW, plain_TW)


@needs_openvino
@pytest.mark.parametrize("buckets", [0, 32])
@pytest.mark.parametrize("padded", [False, True])
def test_openvino_computes_what_ours_does(buckets: int, padded: bool, tmp_path: Path) -> None:
    from benchmarks.openvino_reader import OpenvinoEncoder, convert

    bert, batch = a_bert(buckets=buckets, width=128), Packed.of([[5, 7, 9], list(range(10, 40)), [3]])
    convert(bert, tmp_path / "float32.xml")
    convert(bert, tmp_path / "int8.xml", int8=True)
    with torch.inference_mode():
        wanted_TW = encode(bert, batch)
        plain_TW = OpenvinoEncoder(bert, tmp_path / "float32.xml", padded=padded)(batch)
        int8_TW = OpenvinoEncoder(bert, tmp_path / "int8.xml", padded=padded)(batch)
    assert (plain_TW - wanted_TW).abs().max() < 1e-4
    assert torch.nn.functional.cosine_similarity(int8_TW, wanted_TW).min() > 0.99
    assert not torch.equal(int8_TW, plain_TW)


@needs_openvino
def test_a_request_per_sequence_reads_it_as_if_it_were_alone(tmp_path: Path) -> None:
    from benchmarks.openvino_reader import OpenvinoEncoder, convert

    bert, sequences = a_bert(buckets=0, width=128), [[5, 7, 9], list(range(10, 40))]
    convert(bert, tmp_path / "int8.xml", int8=True)
    encoder = OpenvinoEncoder(bert, tmp_path / "int8.xml")
    with torch.inference_mode():
        alone_TW = torch.cat([encoder(Packed.of([sequence])) for sequence in sequences])
        assert torch.equal(encoder(Packed.of(sequences)), alone_TW)


@needs_openvino
def test_importing_openvino_reports_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import benchmarks.openvino_reader"]
    subprocess.run(command, check=True, cwd=reader_runtimes.TOP, env=os.environ | {"HOME": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


@needs_onnxruntime
@needs_openvino
def test_it_measures_the_same_questions_by_all(tmp_path: Path) -> None:
    model, index, corpus = tiny_deployment(tmp_path)
    questions = [Question("Where is it?", ("here",)), Question("Who was it?", ("nobody",))]
    names = ["onnxruntime int8", EXACT, "openvino int8"]
    results = measure(model, corpus, index, questions, tmp_path, names)
    assert results["questions"] == 2 and list(results["runtimes"]) == names
    for own in results["runtimes"].values():
        assert own["processor"]["p50_ms"] > 0 and 0 <= own["right"] <= 2
    for name in set(names) - {EXACT}:
        assert 0 <= results["runtimes"][name]["log_probability_difference"]["mean"] < math.inf
    assert EXACT in reader_runtimes.table(results)


def test_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "benchmarks.onnx_reader", raising=False)
    model, index, corpus = tiny_deployment(tmp_path)
    where = ["--model", str(model), "--corpus", str(corpus), "--index", str(index)]
    assert main([*where, "--output", str(tmp_path / "results.json")]) == 2
    assert "onnx is missing: pip install -c constraints.txt onnx onnxruntime openvino." in capsys.readouterr().err
    assert not (tmp_path / "results.json").exists()


def test_questions_are_spread_over_the_files() -> None:
    some = mixed(reader_runtimes.SETS, 32)
    assert len({one.question for one in some}) == 32
    first = {one.question for one in mixed(reader_runtimes.SETS[:1], 200)}
    assert sum(one.question in first for one in some) == 20
    assert OURS != EXACT
