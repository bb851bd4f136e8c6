"""Runs an activity of this package as a part of another one, in its own process and run folder."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence

from realm_core.errors import EXIT_REFUSED, EXIT_STOPPED, RealmError, Stopped
from realm_core.runs.activity import Activity
from realm_core.runs.folder import RunFolder
from realm_core.runs.locks import only_one
from realm_core.runs.processes import awaited, start_in

_LOOK_S = 0.2  # between two checks of a part


def run_part(
    name: str, command: Sequence[str], folder: RunFolder, activity: Activity, look: Callable[[], None]
) -> None:
    """Run `python -m realm_core COMMAND` to its end. If `activity` is stopped the part is stopped, too.

    look: called repeatedly while it runs.
    `Stopped` if one of them was stopped; `RealmError` has the reason why the part failed, or where to find it.
    """
    with only_one(folder.path, activity):
        pass  # waits for a part that outlived its activity, which is possible on systems other than Linux
    log_start = folder.log_size()
    bound = [f"--run={folder.path}", f"--with-parent={os.getpid()}"]
    with awaited(start_in(folder, [sys.executable, "-m", "realm_core", *command, *bound])) as process:
        while (status := process.poll()) is None:
            activity.check()
            look()
            time.sleep(_LOOK_S)
    if status == EXIT_STOPPED:
        raise Stopped
    if status == EXIT_REFUSED and (sentence := folder.error_sentence(log_start)) is not None:
        raise RealmError(f"{name}: {sentence}")
    if status:
        raise RealmError(
            f"{name} failed with status {status}; {folder.log_file} shows more. Run the same again to go on."
        )
