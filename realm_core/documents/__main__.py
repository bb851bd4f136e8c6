"""`python -m realm_core.documents PATH`: read one file under limits, and write its documents to stdout as JSON.

Exit status: 0 read, 2 refused (the last line of stderr says why). Started by `reading` for every file, so that a file
that makes a parser crash, loop or fill the memory ends this process and nothing else.
"""

from __future__ import annotations

import argparse
import logging
import math
import resource
import signal
import sys
import warnings
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

from realm_core.documents.readers import read_file, read_typed
from realm_core.documents.records import Limits, to_json
from realm_core.errors import EXIT_REFUSED, RealmError

_GRACE_S = 2  # after the deadline, at which the parent ends this process; for the case that it is gone
_BYTES_PER_CHARACTER = 6  # of JSON at most; twice, for headings are repeated in every section
_MIB = 1 << 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m realm_core.documents", description="Read one file as JSON.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--name", help="what it is called, or the first text (default: the file's name)")
    parser.add_argument("--type", help="its media type, as declared by the sender")
    parser.add_argument("--only-one", action="store_true", help="refuse files that hold many documents")
    parser.add_argument("--typed", action="store_true", help="it is a JSON list of names and texts that were typed")
    for field in fields(Limits):
        kind = float if field.name == "seconds" else int
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=field.default)
    options = parser.parse_args()
    limits = Limits(**{field.name: getattr(options, field.name) for field in fields(Limits)})
    _bound(limits)
    # Silence library output; the parent parses the last line of stderr.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    name = options.name or options.path.name
    try:
        if options.typed:
            documents = read_typed(options.path, limits)
        else:
            documents = read_file(options.path, name, options.type, limits, only_one=options.only_one)
        sys.stdout.write(to_json(documents))
        sys.stdout.flush()
    except RealmError as error:
        print(error, file=sys.stderr)
        return EXIT_REFUSED
    except MemoryError:
        told = f"takes more than {limits.memory_bytes / _MIB:,.0f} MiB of memory to read, which is the limit."
        print(f"{name} {told}", file=sys.stderr)
        return EXIT_REFUSED
    return 0


def _bound(limits: Limits) -> None:
    """Limits that the kernel keeps; no code that this process may be made to run can lift them again."""
    written = 2 * _BYTES_PER_CHARACTER * limits.characters + _MIB
    seconds = math.ceil(limits.seconds) + _GRACE_S
    for which, most in (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, written),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(ValueError, OSError):  # a lower limit holds already, or the system has no such limit
            resource.setrlimit(which, (most, most))
    signal.alarm(seconds)


if __name__ == "__main__":
    sys.exit(main())
