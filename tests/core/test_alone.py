"""One process at a time in a folder."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from realm_core.activity import Activity
from realm_core.alone import only_one
from realm_core.errors import RealmError, Stopped
from realm_core.files import remove_folder
from tests.core.processes import TOP
from tests.waiting import wait_until

_HOLD = """
import sys
from pathlib import Path
from realm_core.activity import Activity
from realm_core.alone import only_one

with only_one(Path(sys.argv[1]), Activity(quiet=True)):
    print("held", flush=True)
    sys.stdin.read()
"""


class Watched(Activity):
    """Keeps what is said; stops when it is asked to."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.said: list[str] = []
        self.stopping = False

    def say(self, message: str) -> None:
        self.said.append(message)

    def check(self) -> None:
        if self.stopping:
            raise Stopped


def hold(folder: Path) -> Popen[str]:
    """Another process that holds the folder until its input ends."""
    process = Popen([sys.executable, "-c", _HOLD, str(folder)], stdin=PIPE, stdout=PIPE, text=True, cwd=TOP)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


class Entering(threading.Thread):
    """Goes into the folder, and notes that it was there."""

    def __init__(self, folder: Path, activity: Activity) -> None:
        super().__init__()
        self._folder, self._activity = folder, activity
        self.was_in = self.stopped = False

    def run(self) -> None:
        try:
            with only_one(self._folder, self._activity):
                self.was_in = self._folder.is_dir()
        except Stopped:
            self.stopped = True


@pytest.mark.parametrize("end", ["done", "killed", "removed"])
def test_who_comes_second_waits_for_the_first_however_that_ends(tmp_path: Path, end: str) -> None:
    folder, activity = tmp_path / "run", Watched()
    first = hold(folder)
    second = Entering(folder, activity)
    second.start()
    wait_until(lambda: bool(activity.said))
    assert activity.said == [f"Waiting for another process that works in {folder}."] and not second.was_in
    if end == "removed":
        remove_folder(folder)  # as what is done with its folder does, before it ends
    if end == "killed":
        first.kill()
    first.communicate()
    second.join()
    assert second.was_in and len(activity.said) == 1


def test_whoever_waits_can_be_stopped(tmp_path: Path) -> None:
    activity = Watched()
    first = hold(tmp_path)
    second = Entering(tmp_path, activity)
    second.start()
    wait_until(lambda: bool(activity.said))
    activity.stopping = True
    second.join()
    assert second.stopped and not second.was_in
    first.communicate()


def waits(folder: Path) -> Entering:
    """Someone who comes, and has to wait."""
    activity = Watched()
    coming = Entering(folder, activity)
    coming.start()
    wait_until(lambda: bool(activity.said))
    assert not coming.was_in
    return coming


def test_whoever_leaves_a_folder_that_was_made_anew_lets_nobody_in(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with only_one(folder, Watched()):
        remove_folder(folder)
        first = hold(folder)
    second = waits(folder)
    first.communicate()
    second.join()
    assert second.was_in and not list(folder.iterdir())


def test_a_child_that_lives_on_keeps_the_lock(tmp_path: Path) -> None:
    with only_one(tmp_path, Watched()) as lock:
        child = Popen([sys.executable, "-c", "input()"], stdin=PIPE, text=True, pass_fds=[lock])
    second = waits(tmp_path)
    child.communicate("\n")
    second.join()
    assert second.was_in and not list(tmp_path.iterdir())


def test_where_no_folder_can_be_it_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = pytest.raises(RealmError, match=r"file/run cannot be written: Not a directory")
    with refused, only_one(tmp_path / "file" / "run", Watched()):
        pass
