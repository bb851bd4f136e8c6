"""What a file is: by its content, unless its name or its declared type says otherwise."""

from __future__ import annotations

import gzip
import time

import docx
import pytest

from tests.core.corpus.dumps import dump, page
from tests.core.documents.files import Reader, saved, with_member
from tests.core.documents.pdfs import column, pdf

PDF = pdf([column(["Turku is a city."])])
ROW = b'{"id": 1, "title": "a", "text": "b"}'
DOCX_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def small_docx() -> bytes:
    document = docx.Document()
    document.add_paragraph("Turku is a city.")
    return saved(document)


@pytest.mark.parametrize(
    ("data", "name", "declared_type", "expected"),
    [
        (b"Turku is a city.", "a.txt", None, "text"),
        (b"Turku is a city.", "README", None, "text"),
        (b"Turku is a city.", "a.log", "text/plain", "text"),
        (b"Turku is a city.", "a.md", "text/plain", "markdown"),
        (b"Turku is a city.", "a", "text/markdown; charset=utf-8", "markdown"),
        (b"Turku is a city.", "a.md", "application/octet-stream", "markdown"),
        (b"<p>Turku is a city.</p>", "a.htm", None, "html"),
        (b"\xef\xbb\xbf<!-- made -->\n<!DOCTYPE HTML><p>Turku is a city.", "a", None, "html"),
        (b"<html><p>Turku is a city.", "a", "text/plain", "html"),
        (b"No,Text\nx,Turku is a city.", "a.csv", "application/vnd.ms-excel", "csv"),
        (b"No,Text\nx,Turku is a city.", "a", "text/csv; charset=utf-8", "csv"),
        (b"No\tText\nx\tTurku is a city.", "a.tsv", "text/plain", "tsv"),
        (b"No\tText\nx\tTurku is a city.", "a", "text/tab-separated-values", "tsv"),
        (PDF, "a.PDF", "application/pdf", "pdf"),
        (b"\n\n" + PDF, "upload", None, "pdf"),
        (small_docx(), "a.docx", DOCX_TYPE, "docx"),
        (small_docx(), "upload", None, "docx"),
    ],
)
def test_kind(reader: Reader, data: bytes, name: str, declared_type: str | None, expected: str) -> None:
    document = reader.one(data, name, declared_type)
    assert document.format == expected
    assert "Turku is a city." in document.sections[0].text


IS_TEXT = "but its content is not: it is text, which begins “A text.”."
IS_OTHER = "but its content is not: it is damaged, or of another format."


@pytest.mark.parametrize(
    ("data", "name", "declared_type", "expected"),
    [
        (PDF, "a.txt", None, "a.txt is named as plain text, but its content is PDF."),
        (PDF, "a.docx", None, "a.docx is named as DOCX, but its content is PDF."),
        (PDF, "a.pdf", "text/html", "a.pdf is declared as HTML, but its content is PDF."),
        (PDF, "a", "text/plain", "a is declared as plain text, but its content is PDF."),
        (small_docx(), "a.md", None, "a.md is named as Markdown, but its content is DOCX."),
        (b"<html><p>x</p>", "a.txt", None, "a.txt is named as plain text, but its content is HTML."),
        (b"A text.", "a.pdf", None, f"a.pdf is named as PDF, {IS_TEXT}"),
        (b"\x08\xaa\x06", "a.pdf", None, f"a.pdf is named as PDF, {IS_OTHER}"),
        (b"A text.", "a", DOCX_TYPE, f"a is declared as DOCX, {IS_TEXT}"),
        (b"A text.", "a.md", "text/html", "a.md is named as Markdown, but declared as HTML."),
        (ROW, "a.md", None, "a.md is named as Markdown, but its content is JSON lines."),
        (dump(page("T", "x")), "a.html", None, "a.html is named as HTML, but its content is a MediaWiki dump."),
    ],
)  # fmt: skip
def test_a_contradiction_names_both(
    reader: Reader, data: bytes, name: str, declared_type: str | None, expected: str
) -> None:
    assert reader.refusal(data, name, declared_type) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "is empty."),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "is a PNG image, which is not read."),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "is an Office document of before 2007"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "is encrypted; save it"),
        (b"{\\rtf1 x}", "is RTF; save it as DOCX."),
        (b"PK\x03\x04" + bytes(50), "is a damaged or truncated archive"),
        (with_member(b"PK\x05\x06" + bytes(18), "a.txt", b"x"), "is a zip archive and not DOCX"),
        (with_member(b"PK\x05\x06" + bytes(18), "xl/workbook.xml", b"x"), "is an Excel workbook, which is not read."),
        (gzip.compress(b"A text."), "is compressed plain text; unpack it first."),
        (gzip.compress(PDF), "is compressed PDF; unpack it first."),
        (gzip.compress(b"A text.")[:10], "byte 10: the gzip archive ends too early"),
    ],
)
def test_what_is_not_read_is_named(reader: Reader, data: bytes, expected: str) -> None:
    assert expected in reader.refusal(data, "upload")


def test_comments_take_no_time(reader: Reader) -> None:
    start = time.process_time()
    assert reader.one("<!-- -->" * 8_000 + "\n\nWords.", "a.md").format == "markdown"
    assert time.process_time() - start < 10


def test_other_xml_is_refused(reader: Reader) -> None:
    assert reader.refusal("<a><b/></a>", "a.xml") == "a.xml is XML, of which only MediaWiki dumps and XHTML are read."
