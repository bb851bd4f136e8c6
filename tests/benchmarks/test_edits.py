"""The measurement of edits runs with the shipped model over the default corpus (nightly), and its figures are told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from realm_core.files import read_json
from tests.forked import TOP


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_no_question_fails_or_is_answered_from_a_mixture(tmp_path: Path) -> None:
    output = tmp_path / "edits.json"
    command = ["benchmarks.edits", "--blocks=8", "--rounds=1", "--askers=2", f"--output={output}"]
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=TOP,
        env=os.environ | {"REALM_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = read_json(output)
    assert [edit["edit"] for edit in figures["edits"]] == ["add", "change", "remove"]
    assert [edit["blocks"] > 1 for edit in figures["edits"]] == [True] * 3
    assert all(0 < edit["edit_s"] <= edit["until_answer_s"] for edit in figures["edits"])
    assert figures["states"] >= 3 and figures["questions"] > 0
    assert figures["failed"] == figures["mixed"] == 0
