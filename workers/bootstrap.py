"""From a bare checkout to a running program: what `make` calls, with the system's Python.

    python3 -m workers.bootstrap [--hardware cpu|gpu] run|install|test|lint|format|bench|chaos|audit

Only the standard library is used. The virtual environment in .venv is created or repaired until every package that
constraints.txt names for the task is complete; then the task itself starts in it.
Errors that a person can fix end with one sentence and exit status 1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from workers.refusal import TOP, Refusal

MINIMUM_PYTHON = (3, 11)
PROGRAMS = {
    "run": "workers.supervisor",
    "test": "tests.run",
    "bench": "benchmarks.run",
    "audit": "workers.audit",
    "chaos": "tests.workers.chaos",
}
LINT = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy", "--num-workers=2"),
    ("client.generate", "--check"),
    ("djlint", "--quiet", "--lint", "templates"),
    ("workers.audit", "--if-possible"),
)
EXTRAS = {
    "test": ["test"],
    "chaos": ["test"],
    "lint": ["dev", "test", "audit"],
    "format": ["dev"],
    "audit": ["audit"],
}
FORMAT = (("ruff", "check", "--fix", "."), ("ruff", "format", "."), ("client.generate",))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="workers.bootstrap")
    parser.add_argument("task", choices=["install", "lint", "format", *PROGRAMS])
    parser.add_argument("--hardware", choices=["cpu", "gpu"], default="cpu")
    options = parser.parse_args(arguments)
    os.chdir(TOP)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C does, which also ends pip
    # pip does not compile modules beforehand; if they were not cached either, every start would take 10 s longer.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # If compiled code crashes, the log has the line of Python.
    os.environ.setdefault("PYTHONFAULTHANDLER", "1")
    try:
        use_new_enough_python()
        return perform(options.task, options.hardware)
    except Refusal as refusal:
        print("", f"error: {refusal}", sep="\n", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; the next run resumes from here.", file=sys.stderr)
        return 130


def use_new_enough_python() -> None:
    """Restart under a newer Python of the machine if `python3` is too old."""
    if sys.version_info >= MINIMUM_PYTHON:
        return
    for minor in range(20, MINIMUM_PYTHON[1] - 1, -1):
        newer = shutil.which(f"python3.{minor}")
        if newer:
            os.execv(newer, [newer, "-m", "workers.bootstrap", *sys.argv[1:]])
    raise Refusal(
        f"Python 3.11 or newer is needed, and {sys.executable} is {sys.version.split()[0]}. Install one "
        "(Debian and Ubuntu: apt-get install python3 python3-venv) or name it: make run PYTHON=/path/to/python3.12"
    )


def perform(task: str, hardware: str) -> int:
    """Install what `task` needs and run it; returns the exit status."""
    # Imported here: a Python that is too old might not even parse these modules.
    from workers.environment import Environment
    from workers.guards import preflight

    if task == "run":
        preflight()  # before a download of minutes
    environment = Environment(TOP, hardware)
    environment.ensure(EXTRAS.get(task, []))
    if task == "install":
        print("The virtual environment in .venv is complete.")
        return 0
    if task == "test":
        from workers.system_packages import ensure_browser

        ensure_browser()
    if task in PROGRAMS:
        return replace_by(environment.python, "-m", PROGRAMS[task])
    return check_all(environment.python, LINT if task == "lint" else FORMAT)


def replace_by(python: Path, *arguments: str) -> int:
    """Replace this process by another program, which then gets the signals and sets the exit status."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(str(python), [str(python), *arguments])


def check_all(python: Path, commands: tuple[tuple[str, ...], ...]) -> int:
    """Run every command even after one has failed; returns 1 if any did."""
    failed = []
    for command in commands:
        print(f"$ {' '.join(command)}", flush=True)
        if subprocess.run([str(python), "-m", *command], check=False).returncode != 0:
            failed.append(" ".join(command))
    if failed:
        print(f"\nNot clean: {', '.join(failed)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
