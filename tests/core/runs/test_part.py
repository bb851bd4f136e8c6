"""An activity that runs as a part of another one: its own sentence explains it, and it never runs twice at once."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from subprocess import PIPE

import pytest

from realm_core.errors import RealmError
from realm_core.runs.activity import Activity
from realm_core.runs.folder import RunFolder
from realm_core.runs.part import run_part
from realm_core.runs.processes import kill_all, start
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(900)  # processes are started, on a machine that may be busy


class Parent(Activity):
    """Keeps what is said; can be asked to stop."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)


def test_a_part_that_refuses_says_why(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    wrong = ["ingest", "--source=jsonl", f"--path={tmp_path}/none", f"--output={tmp_path}"]
    with pytest.raises(RealmError, match=rf"^mine: {tmp_path}/none cannot be read: No such file or directory\.$"):
        run_part("mine", wrong, folder, Parent(), lambda: None)
    with pytest.raises(RealmError, match=r"^mine: .*/none cannot be read"):  # of this attempt
        run_part("mine", wrong, folder, Parent(), lambda: None)
    assert folder.log_file.read_text().count("cannot be read") == 2


def test_a_part_that_breaks_leads_to_its_log(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match=r"^mine failed with status 2; .*/log\.txt shows more\. Run the same again"):
        run_part("mine", ["index"], RunFolder(tmp_path), Parent(), lambda: None)
    assert "the following arguments are required" in (tmp_path / "log.txt").read_text()


def test_a_part_that_another_process_is_still_at_is_waited_for(tmp_path: Path) -> None:
    folder, activity = RunFolder(tmp_path), Parent()
    program = "import time; print(flush=True); time.sleep(60)"
    earlier = start([sys.executable, "-c", program], output=PIPE, lock=folder.lock_file)
    assert earlier.stdout is not None
    with earlier.stdout as said:
        said.readline()  # it holds the lock
    ended: list[str] = []

    def run() -> None:
        with pytest.raises(RealmError, match="mine failed"):
            run_part("mine", ["index"], folder, activity, lambda: None)
        ended.append("mine")

    later = threading.Thread(target=run)
    later.start()
    wait_until(lambda: activity.said or ended)
    assert activity.said == [f"Waiting for another process that works in {tmp_path}."] and not ended
    kill_all(earlier)
    earlier.wait()
    later.join()
    assert ended and activity.said[1:] == []
