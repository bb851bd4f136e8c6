"""Derives the synchronous client from the asynchronous one: `python -m client.generate`; `--check` only compares."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import unasync

PACKAGE = Path(__file__).resolve().parent / "realm_client"
SOURCE, TARGET = PACKAGE / "_async_client.py", PACKAGE / "_client.py"
REPLACEMENTS = {
    "AsyncClient": "Client",
    "AsyncBaseTransport": "BaseTransport",
    "aclose": "close",
    "aread": "read",
    "aiter_bytes": "iter_bytes",
    "asyncio": "time",  # for sleep
}
# The import order, and `yield from` for the loops that an asynchronous generator needs.
FIX = ("ruff", "check", "--fix", "--quiet", "--select=I,UP028", "--unsafe-fixes")
FORMAT = ("ruff", "format", "--quiet")


def generated() -> str:
    """The synchronous client that the asynchronous one gives."""
    with TemporaryDirectory() as folder:
        rule = unasync.Rule(str(PACKAGE), folder, REPLACEMENTS)
        unasync.unasync_files([str(SOURCE)], [rule])
        code = (Path(folder) / SOURCE.name).read_text(encoding="utf-8")
    _, body = code.split("\n", 1)  # the first line is the docstring, which is about the source
    code = f'"""Generated from {SOURCE.name} by `python -m client.generate`: do not edit."""\n{body}'
    for command in (FIX, FORMAT):
        arguments = [sys.executable, "-m", *command, f"--stdin-filename={TARGET}", "-"]
        code = subprocess.run(arguments, input=code, capture_output=True, text=True, check=True).stdout
    return code


def main() -> int:
    """Write the synchronous client, or check it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m client.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if the file is not what the source gives")
    code = generated()
    if not parser.parse_args().check:
        TARGET.write_text(code, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != code:
        print(f"{TARGET} is not what {SOURCE.name} gives: run `python -m client.generate`.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
