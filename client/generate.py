"""Derives the synchronous client from the asynchronous one: `python -m client.generate`; `--check` only compares."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import unasync

PACKAGE = Path(__file__).resolve().parent / "realm_client"
PARTS = ("sending", "operators", "client")  # each `_async_PART.py` becomes `_PART.py`
REPLACEMENTS = {
    **{f"_async_{part}": f"_{part}" for part in PARTS},
    **{f"Async{part.capitalize()}": part.capitalize() for part in PARTS},
    "AsyncBaseTransport": "BaseTransport",
    "aclose": "close",
    "aread": "read",
    "aiter_bytes": "iter_bytes",
    "asyncio": "time",  # for sleep
}
# The import order, and `yield from` for the loops that an asynchronous generator needs.
FIX = ("ruff", "check", "--fix", "--quiet", "--select=I,UP028", "--unsafe-fixes")
FORMAT = ("ruff", "format", "--quiet")


def generated(source: Path, target: Path) -> str:
    """The synchronous part that an asynchronous one gives."""
    with TemporaryDirectory() as folder:
        rule = unasync.Rule(str(PACKAGE), folder, REPLACEMENTS)
        unasync.unasync_files([str(source)], [rule])
        code = (Path(folder) / source.name).read_text(encoding="utf-8")
    _, body = code.split("\n", 1)  # the first line is the docstring, which is about the source
    code = f'"""Generated from {source.name} by `python -m client.generate`: do not edit."""\n{body}'
    for command in (FIX, FORMAT):
        arguments = [sys.executable, "-m", *command, f"--stdin-filename={target}", "-"]
        code = subprocess.run(arguments, input=code, capture_output=True, text=True, check=True).stdout
    return code


def main() -> int:
    """Write the synchronous client, or check it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m client.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if the file is not what the source gives")
    checks = parser.parse_args().check
    status = 0
    for part in PARTS:
        source, target = PACKAGE / f"_async_{part}.py", PACKAGE / f"_{part}.py"
        code = generated(source, target)
        if not checks:
            target.write_text(code, encoding="utf-8")
        elif target.read_text(encoding="utf-8") != code:
            print(f"{target} is not what {source.name} gives: run `python -m client.generate`.", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
