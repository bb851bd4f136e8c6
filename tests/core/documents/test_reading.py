"""Reading in a process of its own: what it may take, and what becomes of a file that makes it crash."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from realm_core.documents import reading
from realm_core.documents.reading import DEFAULT_LIMITS, read_documents, read_typed
from realm_core.documents.records import DocumentSection, Limits, ParsedDocument, from_json, to_json
from realm_core.errors import RealmError
from tests.core.documents.pdfs import column, pdf
from tests.core.processes import TOP

PDF = pdf([column(["Turku is a city."])])
ROWS = b'{"id": 1, "title": "A", "text": "a"}\n{"id": 2, "title": "B", "text": "b"}\n'


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the place of the library that parses PDF, what a hostile PDF might make of it; the file to write."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "pypdfium2.py"


def refusal(data: bytes | Path, name: str, limits: Limits = DEFAULT_LIMITS) -> str:
    with pytest.raises(RealmError) as raised:
        read_documents(data, name, None, limits)
    return str(raised.value)


def test_bytes_and_paths(tmp_path: Path) -> None:
    [document] = read_documents(PDF, "turku.pdf", "application/pdf")
    section = DocumentSection((), "Turku is a city.", 1)
    assert document == ParsedDocument("turku", "", (section,), (), "pdf", titled_by_name=True)
    path = tmp_path / "a b's.pdf"
    path.write_bytes(PDF)
    assert read_documents(path, "turku.pdf") == [document]
    assert [one.title for one in read_documents(ROWS, "a.jsonl")] == ["A", "B"]
    assert read_documents(PDF, "turku.pdf", only_one=True) == [document]


def test_one_of_many_is_refused() -> None:
    with pytest.raises(RealmError, match=r"^a.jsonl is JSON lines, which holds many documents, and one is expected\.$"):
        read_documents(ROWS, "a.jsonl", only_one=True)


def test_names_that_could_be_taken_for_something_else() -> None:
    for name in ("--help", "../../etc/passwd", "a\nb.txt", "é\ud800.txt", "x" * 5000):
        assert read_documents(b"Words.", name)[0].sections[0].text == "Words."
    assert refusal(b"", " \n ") == "The file is empty."
    assert refusal(b"\0\0\0\x01", "-rf\n.txt") == "-rf .txt is no text: its character 1 is the control code 0."


def test_what_was_typed_is_text_whatever_it_looks_like() -> None:
    [document] = read_typed([("a.docx", "%PDF-1.7 is how it begins.")])
    assert isinstance(document, ParsedDocument)
    assert (document.format, document.sections[0].text) == ("text", "%PDF-1.7 is how it begins.")


def test_many_typed_texts_share_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    run = reading._run
    monkeypatch.setattr(reading, "_run", lambda arguments, *rest: started.append(arguments) or run(arguments, *rest))
    texts = [(f"Town {number}", f"Town {number} is by the sea \ud800.") for number in range(50)]
    documents = read_typed(texts)
    assert [one.sections[0].text for one in documents if isinstance(one, ParsedDocument)] == [
        f"Town {number} is by the sea ?." for number in range(50)
    ]
    assert len(started) == 1 and read_typed([]) == []
    first, wrong, last = read_typed([texts[0], ("The second", "No\0 text\0."), texts[2]])
    assert str(wrong) == "The second is no text: its character 3 is the control code 0."
    assert [first, last] == [documents[0], documents[2]]


def test_files_that_are_not_there(tmp_path: Path) -> None:
    assert refusal(tmp_path / "a.txt", "a.txt") == f"{tmp_path / 'a.txt'} cannot be read: No such file or directory."
    assert refusal(tmp_path, "a.txt") == f"{tmp_path} is not a file."
    (tmp_path / "empty").touch()
    assert refusal(tmp_path / "empty", "a.txt") == "a.txt is empty."


def test_a_hundred_megabytes_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / "line.txt"
    path.write_bytes(b"x" * (100 << 20))
    assert refusal(path, "line.txt") == "line.txt has 100.0 MiB, more than 64.0."
    limits = Limits(file_bytes=200 << 20)
    assert refusal(path, "line.txt", limits) == (
        "line.txt holds more than 20,000,000 characters of text, which is the limit."
    )
    path.write_bytes(b'{"id": "' + b"x" * (100 << 20))
    assert refusal(path, "line.jsonl", limits) == "line.jsonl, line 1: longer than 16 MiB."


def test_memory_is_bounded() -> None:
    told = refusal(b"word " * (10 << 20), "a.txt", Limits(memory_bytes=160 << 20, characters=100_000_000))
    assert told == "a.txt takes more than 160 MiB of memory to read, which is the limit."


def test_of_typed_texts_the_one_that_takes_too_much_memory_is_named() -> None:
    limits = Limits(memory_bytes=160 << 20, characters=100_000_000)
    small, large = read_typed([("Oulu", "Oulu is a city."), ("Turku", "word " * (10 << 20))], limits)
    assert isinstance(small, ParsedDocument)
    assert str(large) == "Turku takes more than 160 MiB of memory to read, which is the limit."


def test_time_is_bounded(hostile: Path) -> None:
    hostile.write_text("import time\nwhile True: pass\n")
    start = time.monotonic()
    assert refusal(PDF, "a.pdf", Limits(seconds=2)) == "a.pdf takes longer than 2 s to read, which is the limit."
    assert time.monotonic() - start < 30


def test_a_crash_ends_the_reader_alone(hostile: Path) -> None:
    hostile.write_text("import os\nos.abort()\n")
    assert refusal(PDF, "a.pdf") == (
        "a.pdf cannot be read: it made its reader crash (signal 6); it is damaged or hostile, or takes more than "
        "2,048 MiB of memory."
    )


def test_what_no_reader_expected(hostile: Path) -> None:
    hostile.write_text("raise IndexError('of nothing')\n")
    assert refusal(PDF, "a.pdf") == "a.pdf cannot be read: its reader failed (IndexError: of nothing)."


def test_output_is_bounded(hostile: Path) -> None:
    hostile.write_text("import sys\nwhile True: sys.stdout.write('x' * 1_000_000)\n")
    told = refusal(PDF, "a.pdf", Limits(characters=1000))
    assert told.startswith("a.pdf cannot be read: ") and "File too large" in told


def test_half_a_result_is_none(hostile: Path) -> None:
    hostile.write_text("import os, sys\nsys.stdout.write('[{\"title\": '); sys.stdout.flush()\nos._exit(1)\n")
    assert refusal(PDF, "a.pdf").startswith("a.pdf cannot be read: its reader failed")


def test_secrets_of_the_environment_are_not_handed_on(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "the secret")
    hostile.write_text("import os\nraise ValueError(os.environ.get('SECRET_KEY'))\n")
    assert refusal(PDF, "a.pdf") == "a.pdf cannot be read: its reader failed (ValueError: None)."


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    read_documents(b"Words.", "a.txt")
    refusal(b"\0\0\0\x01", "a.txt")
    assert list(tmp_path.iterdir()) == []


def test_json_and_back() -> None:
    sections = (DocumentSection(("a", "b"), "Té\nxt", 3), DocumentSection((), "x"))
    documents = [ParsedDocument("T", "en", sections, ("https://a/",), "pdf", ("w",), "1", "https://b/")]
    assert from_json(to_json(documents)) == documents


def test_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# A\n\nWords.\n")
    command = [sys.executable, "-m", "realm_core.documents", str(path)]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and json.loads(done.stdout)[0]["title"] == "A"
    done = subprocess.run([*command, "--name=a.pdf"], cwd=TOP, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "a.pdf is named as PDF, but its content is not: it is text, which begins “# A”.\n"


def test_what_readers_import() -> None:
    """Nothing of a parser is imported for another format, nor where files are only handed over; torch never."""
    parsers = {"trafilatura", "lxml", "pypdfium2", "docx", "markdown_it", "pyarrow", "charset_normalizer", "torch"}
    program = (
        f"import sys, realm_core.documents.reading, realm_core.documents.readers; print({parsers!r} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=TOP, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
