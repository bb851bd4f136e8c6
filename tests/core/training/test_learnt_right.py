"""Whether a fine-tuning changed anything about what it was to learn."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from realm_core.training.finetune import main
from realm_core.training.tasks import Finetune
from tests.core.conftest import Deployment
from tests.core.running import Listening, told
from tests.core.training.material import finetune_arguments, questions, write_lines

SETTINGS: dict[str, Any] = {"holdout": 0.0, "batch": 6, "at_once": 4, "dropout": 0.0}
FAST = {"epochs": 25, "query_lr": 5e-3, "reader_lr": 5e-3, "head_lr": 1e-2}
SLOW = {"epochs": 1, "query_lr": 0.0, "reader_lr": 1e-9, "head_lr": 1e-9}


def learnt(deployment: Deployment, folder: Path, *files: Path, **settings: Any) -> tuple[dict[str, Any], str]:
    """(the counts of each set in the result, what was said)."""
    activity = Listening(folder / "run")
    words = finetune_arguments(deployment, folder, SETTINGS | settings, "--questions", *files, output="tuned")
    task = told("finetune", words)
    assert isinstance(task, Finetune)
    main(task, activity)
    result = json.loads((folder / "run" / "result.json").read_text())
    return result["questions"]["sets"], "\n".join(activity.said)


def test_what_was_learnt_is_counted(deployment: Deployment, tmp_path: Path) -> None:
    ours = write_lines(tmp_path / "ours.jsonl", questions())
    sets, said = learnt(deployment, tmp_path, ours, **FAST)
    before, after = (sets["ours"].pop(name) for name in ("right_before", "right_after"))
    assert sets == {"ours": {"given": 12, "learnt": 12, "held_out": 0}}
    assert before <= 2 and after >= 10
    assert f"Of 12 learnt from ours, right before: {before}, now: {after}." in said


def test_what_a_training_did_not_change_is_named(deployment: Deployment, tmp_path: Path) -> None:
    """Corrections may be learnt from in vain; sets of more than 200 are not asked."""
    many = [{**row, "question": f"{row['question']} {i}"} for row in questions() for i in range(20)]
    files = [write_lines(tmp_path / "ours.jsonl", questions()), write_lines(tmp_path / "many.jsonl", many)]
    sets, said = learnt(deployment, tmp_path, *files, **SLOW)
    assert sets["many"] == {"given": 240, "learnt": 240, "held_out": 0}
    right, wrong = sets["ours"]["right_after"], 12 - sets["ours"]["right_after"]
    assert sets["ours"]["right_before"] == right and wrong > 5
    told = rf"Of 12 learnt from ours, right before: {right}, now: {right}\. Not right now: “.*” and {wrong - 5} more\."
    assert re.search(told, said) and "learnt from many" not in said


@pytest.mark.parametrize("holdout", [0.3, 0.6])
def test_what_is_held_out_is_counted_with_its_set(deployment: Deployment, tmp_path: Path, holdout: float) -> None:
    ours = write_lines(tmp_path / "ours.jsonl", questions())
    sets, _ = learnt(deployment, tmp_path, ours, **SLOW, holdout=holdout)
    own = sets["ours"]
    assert own["given"] == 12 == own["learnt"] + own["held_out"] and 0 < own["held_out"] < 12
    assert own["right_after"] <= own["learnt"]
