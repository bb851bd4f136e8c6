"""What a stage measures and prints goes on to the whole: each row once, each line with the stage's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm_core.runs.activity import Activity
from realm_core.runs.folder import RunFolder
from realm_core.task import Task
from realm_core.training.ablation_plan import AblationStage, StageId
from realm_core.training.relay import Relay, passed_on
from tests.core.running import rows

STAGE = AblationStage(StageId("evaluate", "realm", "plain-dev"), Task(), Path("result.json"))


def measure(run: Path, step: int, loss: float) -> None:
    Activity(run).metrics(step, **{"evaluate.loss": loss})


def relay(stage: Path, whole: Path) -> Relay:
    """As a process has it that starts now."""
    activity = Activity(whole)
    return Relay(STAGE, RunFolder(stage), passed_on(activity), activity)


def test_a_row_goes_on_with_its_time_and_what_it_is_of(tmp_path: Path) -> None:
    stage, whole = tmp_path / "stage", tmp_path / "whole"
    one = relay(stage, whole)
    one.look()  # nothing is there yet
    measure(stage, 10, 0.5)
    one.look()
    measure(stage, 20, 0.25)
    one.look()
    one.look()
    of = {"stage": "evaluate", "row": "realm", "questions": "plain-dev"}
    assert rows(whole) == [row | of for row in rows(stage)]
    assert [row["evaluate.loss"] for row in rows(whole)] == [0.5, 0.25]
    assert STAGE.name == "evaluate-realm.plain-dev" and StageId("ict").labels() == {"stage": "ict"}


def test_whoever_goes_on_passes_on_what_is_left_and_nothing_twice(tmp_path: Path) -> None:
    stage, whole = tmp_path / "stage", tmp_path / "whole"
    measure(stage, 10, 0.5)
    relay(stage, whole).look()
    measure(stage, 20, 0.25)  # and the whole is killed before it looks
    measure(stage, 10, 0.4)  # the stage goes on from its checkpoint
    second = relay(stage, whole)
    second.look()
    second.look()
    assert [(row["step"], row["evaluate.loss"]) for row in rows(whole)] == [(10, 0.5), (20, 0.25), (10, 0.4)]
    other = Relay(
        AblationStage(StageId("ict"), Task(), Path()), RunFolder(stage), passed_on(Activity(whole)), Activity(whole)
    )
    other.look()
    assert len(rows(whole)) == 6  # the same numbers of another stage are others


def test_half_a_line_waits_for_its_end_and_is_left_out_without_one(tmp_path: Path) -> None:
    stage, whole = tmp_path / "stage", tmp_path / "whole"
    measure(stage, 10, 0.5)
    text = (stage / "metrics.jsonl").read_text()
    (stage / "metrics.jsonl").write_text(text[:9])
    one = relay(stage, whole)
    one.look()
    assert not (whole / "metrics.jsonl").exists()
    (stage / "metrics.jsonl").write_text(text)
    one.look()
    (stage / "metrics.jsonl").write_text(text + text[:9] + text + "[1]\n" + text.replace("10", "30"))
    one.look()
    assert [row["step"] for row in rows(whole)] == [10, 30]


def test_a_log_goes_on_line_by_line_from_now_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stage, whole = tmp_path / "stage", tmp_path / "whole"
    stage.mkdir()
    log = stage / "log.txt"
    log.write_text("of an earlier attempt\n")
    one = relay(stage, whole)
    with open(log, "ab") as file:
        file.write(b"10 steps\nerror: no r")
        file.flush()
        one.look()
        file.write("oom – \xe9".encode() + b"\xff\n")
    one.look()
    name = STAGE.name
    assert capsys.readouterr().err == f"{name}: 10 steps\n{name}: error: no room – é\N{REPLACEMENT CHARACTER}\n"


def test_without_a_run_folder_there_is_nothing_to_keep(tmp_path: Path) -> None:
    measure(tmp_path, 10, 0.5)
    activity = Activity(quiet=True)
    Relay(STAGE, RunFolder(tmp_path), passed_on(activity), activity).look()
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]
