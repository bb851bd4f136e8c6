"""`python -m realm_core ACTIVITY …`: activities are the tasks of `realm_core/tasks.py`, with options from their fields.

Exit status: 0 done, 1 `selfcheck` found an error, 2 a `RealmError` (its message on stderr), 3 stopped by a signal.
"""

from __future__ import annotations

import argparse
import atexit
import importlib
import os
import sys
from pathlib import Path
from typing import NoReturn

from realm_core.command_line import add_options, task_of
from realm_core.errors import EXIT_REFUSED, EXIT_STOPPED, RealmError, Stopped
from realm_core.files import write_json
from realm_core.object_store import get_folder
from realm_core.runs.activity import Activity
from realm_core.runs.folder import RunFolder
from realm_core.task import Task, artefacts
from realm_core.tasks import ACTIVITIES


def main(argv: list[str] | None = None) -> int:
    """Run one activity; returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="python -m realm_core", description=__doc__.split("\n")[0])
    parsers = parser.add_subparsers(dest="activity", required=True, metavar="ACTIVITY")
    for name, task in ACTIVITIES.items():
        sub = parsers.add_parser(name, help=task.summary, description=task.summary)
        if argv[:1] == [name]:
            add_options(sub, task)
            sub.add_argument("--run", type=Path, help="folder for progress.json, metrics.jsonl and result.json")
            sub.add_argument("--quiet", action="store_true", help="print nothing but errors")
            sub.add_argument(
                "--with-parent", type=int, metavar="PID", help="stop when this process, the parent, has ended"
            )
    arguments = parser.parse_args(argv)
    try:
        activity = Activity(arguments.run, quiet=arguments.quiet, with_parent=arguments.with_parent)
        activity.stop_on_signals()
        run(task_of(ACTIVITIES[arguments.activity], arguments), activity)
    except RealmError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except (Stopped, KeyboardInterrupt):
        print("Stopped; what was finished is kept.", file=sys.stderr)
        return EXIT_STOPPED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of the output has closed the pipe
    except OSError as error:  # an unexpected path: a file instead of a folder, or one without permission
        if error.filename is None:
            raise
        print(f"error: {error.filename}: {error.strerror}.", file=sys.stderr)
        return EXIT_REFUSED
    return 0


def run(task: Task, activity: Activity) -> None:
    """Run the task, and write its description beside its results; what it is given is got from the store if need be."""
    if activity.run is not None and os.environ.get("RANK", "0") == "0":
        fields = task.model_dump(mode="json")
        write_json(RunFolder(activity.run).task_file, {"activity": task.activity, **fields})
    for one in artefacts(type(task)):
        if one.artefact.kind in ("corpus", "index", "model") and (value := getattr(task, one.name)) is not None:
            for folder in value if one.many else (value,):
                get_folder(folder, activity)
    importlib.import_module(task.code or type(task).__module__).main(task, activity)


def end(status: int) -> NoReturn:
    """End this process with an exit status.

    Under torchrun C++ destructors are skipped: those of gloo's threads sometimes abort the process after its work is
    done, and torchrun would then treat the whole training as failed.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    end(main())
