"""Run an activity of this package as a part of another one, in a process and a run folder of its own."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence

from realm_core.errors import EXIT_REFUSED, EXIT_STOPPED, RealmError, Stopped
from realm_core.runs.activity import Activity
from realm_core.runs.folder import RunFolder
from realm_core.runs.locks import only_one
from realm_core.runs.processes import ask_to_end, kill_all, start_in

_LOOK_S = 0.2  # between looks at a part


def run_part(
    name: str, command: Sequence[str], folder: RunFolder, activity: Activity, look: Callable[[], None]
) -> None:
    """Run `python -m realm_core COMMAND` to its end. When `activity` is stopped the part is stopped, too.

    look: called again and again while it runs.
    `Stopped` when one of them was stopped; `RealmError` says why the part failed, or where that stands.
    """
    with only_one(folder.path, activity):
        pass  # a part that outlived its activity, as it may on a system other than Linux, has ended by now
    log_start = folder.log_size()
    bound = [f"--run={folder.path}", f"--with-parent={os.getpid()}"]
    process = start_in(folder, [sys.executable, "-m", "realm_core", *command, *bound])
    try:
        while process.poll() is None:
            activity.check()
            look()
            time.sleep(_LOOK_S)
    finally:
        if process.poll() is None:
            ask_to_end(process)
        status = process.wait()
        kill_all(process)  # helpers that it left behind
    if status == EXIT_STOPPED:
        raise Stopped
    if status == EXIT_REFUSED and (sentence := folder.error_sentence(log_start)) is not None:
        raise RealmError(f"{name}: {sentence}")
    if status:
        raise RealmError(
            f"{name} failed with status {status}; {folder.log_file} shows more. Run the same again to go on."
        )
