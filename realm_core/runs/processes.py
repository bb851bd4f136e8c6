"""Starts and ends child processes, each the leader of its own session.

Its own session keeps Ctrl-C in a terminal away from the child: the parent decides the order in which processes end.
Standard library only.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from realm_core.runs import launch
from realm_core.runs.folder import RunFolder

EXIT_LOCKED = launch.LOCKED_STATUS  # another process works in the run folder
_LOOK_S = 0.05


def start(
    command: Sequence[str],
    *,
    output: IO[bytes] | int | None = None,
    with_errors: bool = True,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    lock: Path | None = None,
    nice: int = 0,
) -> subprocess.Popen[bytes]:
    """Start `command` so that it ends with this process (see launch.py).

    output: file for its output, or subprocess.PIPE; None: it shares this process's.
    with_errors: whether its error stream goes there, too; otherwise it shares this process's.
    folder: its working directory; None: this process's.
    The calling thread must live as long as the child, because the kernel takes its end for the parent's.
    """
    launcher = [*_launcher(), f"--nice={nice}"]
    if lock is not None:
        launcher += ["--lock", str(lock)]
    return subprocess.Popen(
        [*launcher, str(os.getpid()), *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output is not None and with_errors else None,
        cwd=folder,
        env=None if environment is None else dict(environment),
        start_new_session=True,
    )


def start_in(
    run: RunFolder,
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    nice: int = 0,
) -> subprocess.Popen[bytes]:
    """Start `command` as `start` does, with the lock of its run folder, whose log gets its output.

    It ends with EXIT_LOCKED if another process holds the lock.
    """
    with open(run.log_file, "ab") as log:
        return start(command, output=log, environment=environment, folder=folder, lock=run.lock_file, nice=nice)


def under_torchrun(processes: int, command: Sequence[str], lock: Path) -> list[str]:
    """`command` in several processes, which share the lock of the parent."""
    ranks = [sys.executable, "-m", "realm_core.training.ranks", f"--processes={processes}"]
    return [*ranks, *_launcher(), f"--lock={lock}", "--one-of-several", "0", *command]


def ask_to_end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the leader only: it ends its own children."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the child and all processes of its group; the kernel ends those started by `start`."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def end(process: subprocess.Popen[bytes], until: float = math.inf, kill_now: Callable[[], bool] = lambda: False) -> int:
    """Wait until a process that was asked to end has ended, and kill what is left of it and its children.

    until: the time of the monotonic clock at which it is killed; so it is as soon as `kill_now` is true.
    Returns its exit status.
    """
    while process.poll() is None and time.monotonic() < until and not kill_now():
        time.sleep(_LOOK_S)
    kill_all(process)
    return process.wait()


@contextlib.contextmanager
def awaited(
    process: subprocess.Popen[bytes], grace_s: float = math.inf, kill_now: Callable[[], bool] = lambda: False
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that, however the block is left, is asked to end if it still runs, and awaited as in `end`."""
    try:
        yield process
    finally:
        ask_to_end(process)
        end(process, time.monotonic() + grace_s, kill_now)


def describe_end(status: int) -> str:
    """An exit status in words: "with status 1", "by SIGKILL"."""
    if status >= 0:
        return f"with status {status}"
    try:
        return f"by {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"


def _launcher() -> list[str]:
    return [sys.executable, "-I", launch.__file__]
