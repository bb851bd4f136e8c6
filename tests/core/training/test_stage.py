"""What the trainings of a whole corpus share: run folders, resuming, the passages held out."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from realm_core.corpus.tokens import text_hash
from realm_core.runs.activity import Activity
from realm_core.runs.folder import LOCK
from realm_core.runs.locks import only_one
from realm_core.salient.extract import extract
from realm_core.salient.taggers import TaggerOptions
from realm_core.training import ict, mlm, pretrain
from realm_core.training.stage import MOST_HELD_OUT, run_folder, split_passages
from tests import forked
from tests.core.running import activity_of
from tests.core.training.towns import QUIET, TEXTS, Towns
from tests.tiny import tiny_snapshot
from tests.waiting import wait_until


def hashes(texts: Iterable[str]) -> NDArray[np.uint64]:
    return np.array([text_hash(text) for text in texts], np.uint64)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=60), st.lists(st.floats(0, 1, exclude_max=True), min_size=2))
def test_every_passage_is_learnt_or_measured_on_and_a_larger_share_holds_out_more(
    drawn: list[int], shares: list[float]
) -> None:
    hashes_N = np.array(drawn, np.uint64)
    before: set[int] = set()
    for share in sorted(shares):
        learnt, measured = split_passages(hashes_N, share)
        assert sorted([*learnt, *measured]) == list(range(len(drawn)))
        assert before <= set(measured)
        assert all(drawn[place] / 2**64 <= share for place in measured)
        before = set(measured)


def test_a_share_of_many_is_held_out_and_some_of_them_are_measured_on() -> None:
    hashes_N = hashes(map(str, range(100_000)))
    learnt, measured = split_passages(hashes_N, 0.03)
    assert len(measured) == MOST_HELD_OUT and 96_800 < len(learnt) < 97_200
    fewer, others = split_passages(hashes_N, 0.003)
    assert set(measured) >= set(others) and 240 < len(others) < 360 and len(fewer) + len(others) == 100_000


def test_a_text_is_held_out_wherever_it_stands() -> None:
    texts = list(TEXTS.values())
    learnt, measured = split_passages(hashes(texts), 0.2)
    turned = split_passages(hashes([*reversed(texts), *texts[:3]]), 0.2)
    assert len(measured) > 3
    for own, places in ((learnt, turned[0]), (measured, turned[1])):
        assert {texts[place] for place in own} == {[*reversed(texts), *texts[:3]][place] for place in places}


@pytest.mark.parametrize(("share", "told"), [(1e-9, 1), (0.0, 0), (0.2, 0)])
@pytest.mark.parametrize("name", ["ict", "mlm", "pretrain"])
def test_a_share_of_the_passages_that_comes_to_none_is_told_of(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, share: float, told: int
) -> None:
    said: list[str] = []
    monkeypatch.setattr(Activity, "say", lambda self, message: said.append(message))
    settings: dict[str, Any] = {"steps": 1, "batch": 2, "holdout": share}
    words = towns.warm_up(tmp_path / "made", settings)
    if name == "pretrain":
        words = towns.pretrain(tmp_path / "made", settings | {"k": 3, "refresh": "never"})
    activity_of(name, words, run=tmp_path / "run")
    assert sum("is held out, as a hash of each decides about it" in sentence for sentence in said) == told


@pytest.mark.timeout(900)  # a process is started, on a machine that may be busy
@pytest.mark.parametrize("run", ["run", None])
def test_who_comes_second_into_a_folder_waits_and_finds_the_model_made(
    towns: Towns, tmp_path: Path, run: str | None
) -> None:
    words = ["ict", *towns.warm_up(tmp_path / "made", {"steps": 1, "batch": 4})]
    words += ["--run", str(tmp_path / run)] if run else []
    folder = tmp_path / (run or ".made.run")
    with only_one(folder, QUIET), open(tmp_path / "said", "wb") as said:  # as a first training would
        second = forked.start([sys.executable, "-m", "realm_core", *words], output=said)
        wait_until(lambda: "Waiting for another process" in (tmp_path / "said").read_text())
        assert not (folder / "ict").exists()
        (tmp_path / "made").mkdir()
    assert second.wait() == 2
    told = (tmp_path / "said").read_text().splitlines()
    assert told == [
        f"Waiting for another process that works in {folder}.",
        f"error: {tmp_path / 'made'} exists already; choose another name.",
    ]
    assert not (tmp_path / ".made.run").exists()
    if run:
        assert [path.name for path in folder.iterdir()] == ["task.json"]


def test_what_a_killed_process_was_writing_goes(tmp_path: Path) -> None:
    (tmp_path / ".progress.json.7.tmp").write_text('{"done": 3, "to')
    with run_folder(tmp_path / "made", Activity(tmp_path, quiet=True)) as folder:
        assert [path.name for path in folder.iterdir()] == [LOCK]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("activity", "work", "call", "settings"),
    [
        ("ict", "IctStep.vectors", 6, {"batch": 16, "at_once": 16}),  # behind five steps and one held-out measure
        ("mlm", "hide", 16, {"batch": 8, "at_once": 3}),  # three parts a step, three parts a held-out measure
    ],
)
def test_a_resumed_warm_up_comes_to_the_same_bytes(
    towns: Towns,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    activity: str,
    work: str,
    call: int,
    settings: dict[str, Any],
) -> None:
    settings |= {"steps": 9, "checkpoint_every": 3, "learning_rate": 1e-2, "dropout": 0.1, "holdout": 0.2}
    place = f"realm_core.training.{activity}.{work}"
    original, calls = resolve_name(place), 0

    def dying(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise KeyboardInterrupt
        return original(*given)

    with monkeypatch.context() as patched:
        patched.setattr(place, dying)
        with pytest.raises(KeyboardInterrupt):
            activity_of(activity, towns.warm_up(tmp_path / "killed", settings), run=tmp_path / "run")
    assert [path.name for path in (tmp_path / "run" / activity).iterdir()] == ["checkpoint-3"]
    activity_of(activity, towns.warm_up(tmp_path / "killed", settings | {"metrics_every": 1}), run=tmp_path / "run")
    activity_of(activity, towns.warm_up(tmp_path / "whole", settings), run=tmp_path / "other")
    killed, whole = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("killed", "whole"))
    assert killed == whole


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[set[int], set[int]]]:
    """The text hashes that each stage learns, and those that it measures on."""
    stages: list[tuple[set[int], set[int]]] = []

    def watched(hashes_N: NDArray[np.uint64], holdout: float) -> tuple[list[int], list[int]]:
        learnt, measured = split_passages(hashes_N, holdout)
        stages.append((set(hashes_N[learnt].tolist()), set(hashes_N[measured].tolist())))
        return learnt, measured

    for module in (ict, mlm, pretrain):
        monkeypatch.setattr(module, "split_passages", watched)
    return stages


def test_no_stage_learns_what_another_measures_on(
    towns: Towns, tmp_path: Path, seen: list[tuple[set[int], set[int]]]
) -> None:
    common: dict[str, Any] = {"steps": 1, "batch": 2, "holdout": 0.2, "checkpoint_every": 1}
    for name in ("ict", "mlm"):
        activity_of(name, towns.warm_up(tmp_path / name, common), run=tmp_path / "run")
    latent = common | {"k": 3, "refresh": "never"}
    activity_of("pretrain", towns.pretrain(tmp_path / "made", latent), run=tmp_path / "run")
    # Sentences of another corpus: some of the same texts, in other rows, and one that is new.
    texts = {title: TEXTS[title] for title in list(TEXTS)[::-2]} | {"Rome": "Rome was built in 753 BC."}
    other = tiny_snapshot(tmp_path, texts)
    extract(other, tmp_path / "spans", QUIET, TaggerOptions("dates"))
    words = ["--spans", tmp_path / "spans", "--sentences", other]
    activity_of("pretrain", [*towns.pretrain(tmp_path / "others", latent), *words], run=tmp_path / "other-run")
    assert len(seen) == 4 and {hash for stage in seen[3] for hash in stage} == set(hashes(texts.values()).tolist())
    assert all(measured for _, measured in seen)
    for learnt, _ in seen:
        for _, measured in seen:
            assert not learnt & measured
