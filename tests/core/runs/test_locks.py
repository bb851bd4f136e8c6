"""Locks end with their process, however it ends; one process at a time in a run folder."""

from __future__ import annotations

import fcntl
import select
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from realm_core.errors import RealmError, Stopped
from realm_core.files import remove_folder
from realm_core.runs.activity import Activity
from realm_core.runs.locks import exclusive, only_one, shared
from realm_core.runs.processes import kill_all, start
from tests.core.processes import TOP
from tests.waiting import PATIENCE_S, wait_until

_HOLD = """
import sys
from pathlib import Path
from realm_core.runs.activity import Activity
from realm_core.runs.locks import only_one

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


def _with_child(program: str, *, close_fds: bool) -> str:
    """A program that has a child when it says that it holds its lock, and then waits for it."""
    child = f"child = __import__('subprocess').Popen(['sleep', '60'], close_fds={close_fds})"
    return program.replace("    print(", f"    {child}\n    print(").replace("sys.stdin.read()", "child.wait()")


def started(program: str, path: Path, lock: Path | None = None) -> Popen[bytes]:
    """A process that the runner has started, and that has got what it locks."""
    process = start([sys.executable, "-c", program, str(path)], output=PIPE, lock=lock)
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == b"held\n"
    return process


def test_a_process_that_was_started_with_the_lock_holds_it_and_may_enter(tmp_path: Path) -> None:
    """What it starts with its open files keeps the lock, too."""
    first = started(_with_child(_HOLD, close_fds=False), tmp_path, lock=tmp_path / "lock")
    second = waits(tmp_path)
    first.kill()  # but not the process that it has started
    first.wait()
    second.join(0.5)
    assert not second.was_in
    kill_all(first)
    second.join()
    assert second.was_in and not list(tmp_path.iterdir())


def test_the_lock_of_another_folder_does_not_let_in(tmp_path: Path) -> None:
    first = hold(tmp_path / "wanted")
    second = start([sys.executable, "-c", _HOLD, str(tmp_path / "wanted")], output=PIPE, lock=tmp_path / "other")
    assert second.stdout is not None
    with second.stdout as said:
        wait_until(lambda: (tmp_path / "other").exists())
        assert not select.select([said], [], [], 1.0)[0]
        first.communicate()
        assert said.readline() == b"held\n"
    second.wait()


def test_where_no_folder_can_be_it_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = pytest.raises(RealmError, match=r"file/run cannot be written: Not a directory")
    with refused, only_one(tmp_path / "file" / "run", Watched()):
        pass


# ── Alone, or together ──────────────────────────────────────────────────────────────────────────────────────────────

_LOCKED = """
import sys
from pathlib import Path
from realm_core.runs.locks import exclusive, shared

with {kind}(Path(sys.argv[1]), "taken"):
    print("held", flush=True)
    sys.stdin.read()
"""


def locked(kind: str, path: Path) -> Popen[str]:
    """Another process that holds a lock until its input ends."""
    program = [sys.executable, "-c", _LOCKED.format(kind=kind), str(path)]
    process = Popen(program, stdin=PIPE, stdout=PIPE, text=True, cwd=TOP)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize(
    ("held", "wanted", "together"),
    [
        ("exclusive", exclusive, False),
        ("exclusive", shared, False),
        ("shared", exclusive, False),
        ("shared", shared, True),
    ],
)
def test_a_lock_is_refused_until_its_process_is_killed(
    tmp_path: Path, held: str, wanted: Callable[[Path, str], AbstractContextManager[None]], together: bool
) -> None:
    path = tmp_path / "lock"
    first = locked(held, path)
    with nullcontext() if together else pytest.raises(RealmError, match=r"^taken$"), wanted(path, "taken"):
        assert first.poll() is None
    first.kill()
    first.communicate()
    with wanted(path, "taken"):
        pass
    assert path.exists()


@pytest.mark.parametrize("wanted", [exclusive, shared])
def test_without_a_refusal_text_the_lock_is_waited_for(
    tmp_path: Path, wanted: Callable[[Path], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = locked("exclusive", tmp_path / "lock")
    order: list[str] = []
    tried, flock = threading.Event(), fcntl.flock

    def noted(file: int, operation: int) -> None:
        tried.set()
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", noted)

    def enter() -> None:
        with wanted(tmp_path / "lock"):
            order.append("in")

    second = threading.Thread(target=enter)
    second.start()
    assert tried.wait(PATIENCE_S)
    second.join(0.3)  # whom nothing keeps out is in by then
    order.append("released")
    first.kill()
    first.communicate()
    second.join()
    assert order == ["released", "in"]


def test_a_child_does_not_keep_the_lock_of_its_parent(tmp_path: Path) -> None:
    """It is not inherited: what a builder of an index starts does not hold the index."""
    first = started(_with_child(_LOCKED.format(kind="exclusive"), close_fds=True), tmp_path / "lock")
    first.kill()
    first.wait()
    with exclusive(tmp_path / "lock", "taken"):
        pass
    kill_all(first)
