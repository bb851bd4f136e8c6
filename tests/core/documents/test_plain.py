"""Plain text: encodings and paragraphs."""

from __future__ import annotations

import codecs

import pytest

from tests.core.documents.files import Reader, shown

CAFE = "Une crème brûlée après le café, déjà vu à l'été."


@pytest.mark.parametrize(
    "data",
    [
        CAFE.encode(),
        codecs.BOM_UTF8 + CAFE.encode(),
        codecs.BOM_UTF16_LE + CAFE.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + CAFE.encode("utf-16-be"),
        codecs.BOM_UTF32_LE + CAFE.encode("utf-32-le"),
        CAFE.encode("utf-16-le"),
        CAFE.encode("utf-16-be"),
    ],
    ids=["utf-8", "utf-8 bom", "utf-16-le bom", "utf-16-be bom", "utf-32 bom", "utf-16-le", "utf-16-be"],
)
def test_unicode(reader: Reader, data: bytes) -> None:
    document = reader.one(data, "a.txt")
    assert shown(document) == [((), CAFE)]
    assert document.warnings == ()


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (CAFE, "latin-1"),
        ("“Smart” quotes – and a dash… of it.", "cp1252"),
        ("Müller ging über die Straße nach Köln.", "latin-1"),
        ("Žluťoučký kůň úpěl ďábelské ódy.", "cp1250"),
        ("Москва является столицей России и крупнейшим городом страны.", "cp1251"),
        ("東京は日本の首都であり、世界最大の都市の一つです。", "shift_jis"),
    ],
)
def test_an_encoding_that_is_stated_nowhere_is_guessed_and_told(reader: Reader, text: str, encoding: str) -> None:
    document = reader.one(text.encode(encoding), "a.txt")
    assert shown(document) == [((), text)]
    (warning,) = document.warnings
    assert warning.startswith("Its encoding is stated nowhere; it was read as ")


def test_a_declared_encoding_counts(reader: Reader) -> None:
    """These bytes fit many encodings; Latin-2 is not what would be guessed."""
    document = reader.one("Łódź".encode("iso-8859-2"), "a.txt", "text/plain; charset=ISO-8859-2")
    assert shown(document) == [((), "Łódź")] and document.warnings == ()


@pytest.mark.parametrize("charset", ["no-such-thing", "rot13", "zip", "utf-8"])
def test_a_declared_encoding_that_is_none(reader: Reader, charset: str) -> None:
    assert shown(reader.one(CAFE, "a.txt", f"text/plain; charset={charset}")) == [((), CAFE)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ((CAFE * 50).encode() + b"\xff" + CAFE.encode(), "is UTF-8, but damaged: byte 2,901 is not valid."),
        (codecs.BOM_UTF16_LE + "Turku".encode("utf-16-le") + b"x", "is not valid utf-16-le: byte 13, truncated data."),
        (codecs.BOM_UTF8 + b"Turku \xff", "is not valid utf-8: byte 10, invalid start byte."),
        (b"\x00\x01\x02\x03" * 100, "is no text: its character 1 is the control code 0."),
        (b"Turku\x00 is a city.", "is no text: its character 6 is the control code 0."),
        (b"\x7f\x01" + b"x" * 100, "is no text: its character 1 is the control code 127."),
        (bytes(range(128, 256)) * 4 + b"\x01" * 40, "is no text: "),
        (b"   \n\n\t ", "holds no text: nothing that can be read."),
    ],
)
def test_bytes_that_are_no_text(reader: Reader, data: bytes, expected: str) -> None:
    told = reader.refusal(data, "a.txt").removeprefix("a.txt ")
    assert told.startswith(expected)


def test_charset_of_the_wrong_kind_names_the_byte(reader: Reader) -> None:
    told = reader.refusal("crème".encode("latin-1"), "a.txt", "text/plain; charset=ascii")
    assert told == "a.txt is not valid ascii: byte 3, ordinal not in range(128)."


def test_lines_broken_at_a_margin_are_joined(reader: Reader) -> None:
    text = (
        "The numbat\r\n\r\n"
        "The numbat is an insectivorous marsupial native to\r\n"
        "Western Australia. Its diet consists of termites that it\r\nfinds by smell.\r\n\r\n"
        "- It has a long tongue, which is covered with saliva\r\n- It is active by day\r\n"
    )
    document = reader.one(text, "notes.txt")
    assert document.title == "The numbat"
    assert shown(document) == [
        (
            (),
            "The numbat is an insectivorous marsupial native to Western Australia. Its diet consists of termites that "
            "it finds by smell.\n- It has a long tongue, which is covered with saliva\n- It is active by day",
        )
    ]


def test_short_lines_stay_lines(reader: Reader) -> None:
    document = reader.one("Tyger Tyger, burning bright,\nIn the forests of the night;", "poem.txt")
    assert document.title == "poem"
    assert document.sections[0].text == "Tyger Tyger, burning bright,\nIn the forests of the night;"


def test_one_paragraph_a_line(reader: Reader) -> None:
    lines = [f"Paragraph {number} says one thing about the matter at hand, and ends." for number in range(4)]
    assert reader.one("\n".join(lines), "a.txt").sections[0].text == "\n".join(lines)


def test_a_single_line_is_text_and_no_title(reader: Reader) -> None:
    document = reader.one("Only a line", "a.txt")
    assert (document.title, document.sections[0].text) == ("a", "Only a line")


def test_invisible_characters_are_removed(reader: Reader) -> None:
    document = reader.one("Tur\u00adku\u200b is\u202e a\u00a0city.", "a.txt")
    assert document.sections[0].text == "Turku is a city."


def test_more_characters_than_the_limit(reader: Reader) -> None:
    assert reader.refusal("x" * 1001, "a.txt", characters=1000) == (
        "a.txt holds more than 1,000 characters of text, which is the limit."
    )
    assert len(reader.one("x" * 1000, "a.txt", characters=1000).sections[0].text) == 1000
