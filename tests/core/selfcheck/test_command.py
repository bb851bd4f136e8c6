"""`python -m realm_core selfcheck`: what it prints, its JSON, its exit status, and what it does not need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from torch.nn import functional as F

from realm_core.__main__ import main
from realm_core.runs.activity import Activity
from realm_core.selfcheck import command
from realm_core.selfcheck.checks import DeviceCheck, search_checks
from tests.core.processes import TOP
from tests.tiny import tiny_config


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small matrices and few vectors; and the signals of this process are pytest's."""
    monkeypatch.setattr(Activity, "stop_on_signals", lambda self: None)
    monkeypatch.setattr("realm_core.selfcheck.speed._LARGE_CPU", 128)
    monkeypatch.setattr(
        "realm_core.selfcheck.checks.search_checks", lambda device: search_checks(device, blocks=500, k=5)
    )


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    tiny_config(folder)
    return folder


def arguments(base: Path, *more: str) -> list[str]:
    return ["selfcheck", "--device", "cpu", "--base", str(base), "--seconds", "0", *more]


def test_what_a_person_reads(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And finds in the run folder."""
    assert main(arguments(base, "--run", str(tmp_path))) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("cpu (") and str(base) in lines[0]
    verdicts = [line for line in lines if "(limit" in line]
    assert len(verdicts) >= 10 and all(line.startswith("ok ") for line in verdicts)
    assert sum("% of the peak" in line for line in lines) == 2 and "GiB" in lines[-1]
    report = json.loads((tmp_path / "result.json").read_text())
    assert report["passed"] is True and all(check["passed"] for check in report["checks"])
    assert all(0 <= check["error"] <= check["limit"] for check in report["checks"])
    measured = report["speed"]
    assert measured["weights"] == str(base)
    assert all(
        measured[name] > 0
        for name in ("peak_flops", "blocks_per_s", "sequences_per_s", "training_share", "memory_bytes")
    )


def test_a_broken_kernel_is_status_one(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        F,
        "scaled_dot_product_attention",
        lambda query, key, value, **options: value.new_full(value.shape, float("nan")),
    )
    with pytest.raises(SystemExit) as ended:
        main(arguments(base, "--json", "--run", str(tmp_path)))
    assert ended.value.code == command.EXIT_FAILED == 1
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads((tmp_path / "result.json").read_text())
    vectors = next(check for check in report["checks"] if check["what"] == "vectors")
    assert (report["passed"], vectors["passed"], vectors["error"]) == (False, False, None)
    line = command._line(DeviceCheck("vectors", "at once", float("nan"), limit=1.0))  # as a person reads it
    assert line.startswith("FAIL  vectors")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--device", "abacus"], "device must be auto, cpu, cuda or cuda:N, not 'abacus'."),
        (["--device", "cpu", "--base", "no_such_package"], "The base weights 'no_such_package' are neither"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_status_two(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["selfcheck", *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith(f"error: {said}")


def test_without_the_base_package_a_small_bert_is_drawn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("realm_core.selfcheck.networks.importlib.util.find_spec", lambda name: None)
    assert command.default_networks().name == "a small BERT of random weights"


@pytest.mark.nightly  # house/test_rules.py has what realm_core loads
def test_torch_and_transformers_are_enough(base: Path) -> None:
    """A process in which nothing else of what the project uses can be imported."""
    absent = ("django", "celery", "faiss", "pyarrow", "bm25s", "spacy", "matplotlib", "webapp")
    program = (
        "import sys\n"
        f"for name in {absent!r}: sys.modules[name] = None\n"
        "from realm_core.selfcheck import checks, speed\n"
        "speed._LARGE_CPU, search = 128, checks.search_checks\n"
        "checks.search_checks = lambda device: search(device, blocks=500, k=5)\n"
        "from realm_core.__main__ import main\n"
        f"sys.exit(main({arguments(base)!r}))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=TOP, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
