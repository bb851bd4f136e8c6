"""Reading an uploaded document of any common format, in a process of its own under limits.

    read_documents(b"# Turku\\n\\nA city.", "turku.md")[0].sections[0].text    # "A city."
    read_documents(Path("articles.jsonl"), "articles.jsonl")                 # all of a file that holds many
    read_typed([("Turku", "A city."), ("Oulu", "A city.")])                  # texts that were typed

Text, Markdown, HTML, CSV, TSV, PDF and DOCX are one document each; JSON lines and Parquet (columns id, title and text),
MediaWiki dumps and ZIM hold many. The content decides what a file is; a name or a declared type that says otherwise is
an error. What cannot be read is a `RealmError` that says what, where and why, and nothing of that file is returned: the
reader writes its result once it has all of it.

Every file is read by a new process (`python -m realm_core.documents`): the libraries that parse PDF and XML are
written in C, and a hostile file may make them crash, loop or fill the memory. It is bounded by `Limits`, sees none of
this process's environment but what Python needs, and is killed at its deadline. Texts that were typed share one
process, because starting one takes longer than reading them.

What 1 MB of prose takes, measured on one core of an AMD EPYC (seconds of processor time, peak MiB of memory):

    plain text  0.1 s   25 MiB        JSON lines (2,197 records)  0.3 s   85 MiB
    Markdown    0.2 s   30 MiB        Parquet (2,197 records)     0.3 s  105 MiB
    HTML        0.5 s   60 MiB        MediaWiki (2,197 pages)     0.6 s   85 MiB
    DOCX        0.2 s   40 MiB        PDF (271 pages)             0.6 s   40 MiB

Starting the process is 0.05 s of that; importing pyarrow, for JSON lines, Parquet and MediaWiki, 0.15 s. A web page of
1.3 MB and 150,000 elements, made to be slow, takes 9 s.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import realm_core
from realm_core.corpus.prose import tidy_line
from realm_core.corpus.streams import InputFile
from realm_core.documents.records import Limits, ParsedDocument, from_json
from realm_core.errors import EXIT_REFUSED, CannotStore, RealmError
from realm_core.files import disk_errors

DEFAULT_LIMITS = Limits()
_LONGEST_NAME = 200
_LONGEST_REASON = 300
# The environment variables that the reader needs to start. Others may be passwords, which a hostile file must not find.
_ENVIRONMENT = ("PATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR")


def read_documents(
    source: bytes | Path,
    name: str,
    declared_type: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    *,
    only_one: bool = False,
) -> list[ParsedDocument]:
    """All documents of a file of any format; at least one.

    source:         the content, or where it lies.
    name:           what the file is called, which errors begin with.
    declared_type:  the media type as a browser sends it, if any; its charset counts for text that is not UTF-8.
    only_one:       `RealmError` for a format that holds many.
    """
    shown = _shown(name)
    size = len(source) if isinstance(source, bytes) else InputFile(source).size_bytes
    if size > limits.file_bytes:
        raise RealmError(f"{shown} has {size / (1 << 20):,.1f} MiB, more than {limits.file_bytes / (1 << 20):,.1f}.")
    if not size:
        raise RealmError(f"{shown} is empty.")
    with tempfile.TemporaryDirectory(prefix="realm-document-") as folder:
        path = source if isinstance(source, Path) else Path(folder) / "content"
        if isinstance(source, bytes):
            with disk_errors(path):
                path.write_bytes(source)
        arguments = [str(path.absolute()), f"--name={shown}", *_options(limits)]
        if declared_type:
            arguments.append(f"--type={tidy_line(declared_type, _LONGEST_NAME)}")
        if only_one:
            arguments.append("--only-one")
        return _run(arguments, Path(folder), shown, limits)


def read_typed(texts: Sequence[tuple[str, str]], limits: Limits = DEFAULT_LIMITS) -> list[ParsedDocument | RealmError]:
    """A document for each name and text that was typed, plain text whatever it looks like; why, where there is none.

    One process reads all of them. If it fails, each text is read by one of its own, so that only those are refused
    which cannot be read.
    """
    if not texts:
        return []
    names = [_shown(name) for name, _ in texts]
    try:
        with tempfile.TemporaryDirectory(prefix="realm-document-") as folder:
            path = Path(folder) / "texts"
            with disk_errors(path):
                pairs = [(name, text) for name, (_, text) in zip(names, texts, strict=True)]
                path.write_bytes(json.dumps(pairs).encode())
            arguments = [str(path), f"--name={names[0]}", "--typed", *_options(limits)]
            return [*_run(arguments, Path(folder), names[0], limits)]
    except CannotStore:  # no fault of a text
        raise
    except RealmError as error:
        if len(texts) == 1:
            return [error]
    return [one for text in texts for one in read_typed([text], limits)]


def _shown(name: str) -> str:
    return tidy_line(name, _LONGEST_NAME) or "The file"


def _options(limits: Limits) -> list[str]:
    return [f"--{field.name.replace('_', '-')}={getattr(limits, field.name)}" for field in fields(Limits)]


def _run(arguments: list[str], folder: Path, name: str, limits: Limits) -> list[ParsedDocument]:
    """Start the reader and wait. Its output goes to files, whose size the kernel bounds, not to our memory."""
    root = str(Path(realm_core.__file__).parent.parent)
    environment = {key: os.environ[key] for key in _ENVIRONMENT if key in os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    environment |= {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1", "PYTHONUTF8": "1"}  # less address space, UTF-8
    output, errors = folder / "documents.json", folder / "errors.txt"
    with disk_errors(folder), open(output, "wb") as stdout, open(errors, "wb") as stderr:
        try:
            status = subprocess.run(
                [sys.executable, "-P", "-m", "realm_core.documents", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=environment,
                timeout=limits.seconds,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            raise RealmError(f"{name} takes longer than {limits.seconds:g} s to read, which is the limit.") from None
    if status == 0:
        return from_json(output.read_bytes())
    told = errors.read_text(encoding="utf-8", errors="replace").strip()
    last = told.rpartition("\n")[2]
    if status == EXIT_REFUSED:
        raise RealmError(last)
    if status < 0:
        raise RealmError(
            f"{name} cannot be read: it made its reader crash (signal {-status}); it is damaged or hostile, or takes "
            f"more than {limits.memory_bytes >> 20:,} MiB of memory."
        ) from None
    raise RealmError(
        f"{name} cannot be read: its reader failed ({last[:_LONGEST_REASON].rstrip('.')})."
    ) from RuntimeError(told)
