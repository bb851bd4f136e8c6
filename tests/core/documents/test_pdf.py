"""PDF: paragraphs out of lines, pages kept, and files that are not whole."""

from __future__ import annotations

import zlib

import pytest

from tests.core.documents.files import Reader
from tests.core.documents.pdfs import Line, column, pdf

RUNNING = [Line("Annual report 2025", 800, 9)]
PAGES = [
    [
        *RUNNING,
        Line("1", 30, 9),
        Line("The numbat", 770, 22),
        *column(
            [
                "The numbat is an insectivorous marsupial that is native to West-",
                "ern Australia and recently re-introduced to South Aus-",
                "tralia. It is a well-known animal.",
                "",
                "Its coat is striped. The well-",
                "known animal lives alone and is active by",
            ],
            top=730,
        ),
    ],
    [
        *RUNNING,
        Line("2", 30, 9),
        *column(["day, unlike most marsupials. A second sentence."], top=760),
        Line("Diet and", 700, 16),
        Line("habitat", 681, 16),
        *column(["It eats up to 20,000 termites", "each day.", "- Termites", "- Nothing else"], top=650),
    ],
    [*RUNNING, Line("3", 30, 9), *column(["The numbat lives in woodland."], top=760)],
]


def places(reader: Reader, data: bytes, **limits: int) -> list[tuple[tuple[str, ...], int | None, str]]:
    return [(one.headings, one.page, one.text) for one in reader.one(data, "a.pdf", **limits).sections]


def test_pages_headings_and_paragraphs(reader: Reader) -> None:
    """Without running lines; divided words and sentences are whole again."""
    assert places(reader, pdf(PAGES)) == [
        (
            (),
            1,
            "The numbat is an insectivorous marsupial that is native to Western Australia and recently re-introduced "
            "to South Australia. It is a well-known animal.\n"
            "Its coat is striped. The well-known animal lives alone and is active by day, unlike most marsupials.",
        ),
        ((), 2, "A second sentence."),
        (("Diet and habitat",), 2, "It eats up to 20,000 termites each day.\nTermites.\nNothing else."),
        (("Diet and habitat",), 3, "The numbat lives in woodland."),
    ]


def test_title_language_and_links(reader: Reader) -> None:
    document = reader.one(pdf(PAGES, title="Numbats (2025)", language="en-AU", link="https://example.org/"), "a.pdf")
    assert (document.title, document.language) == ("Numbats (2025)", "en")
    assert document.links == ("https://example.org/",)
    assert document.sections[0].headings == ("The numbat",)


@pytest.mark.parametrize("made", ["Microsoft Word - draft.docx", "untitled", "Unbenannt-1", "about:blank", "paper.dvi"])
def test_titles_that_programs_make_are_none(reader: Reader, made: str) -> None:
    assert reader.one(pdf(PAGES, title=made), "a.pdf").title == "The numbat"


def test_an_outline_says_what_headings_are(reader: Reader) -> None:
    pages = [column(["Introduction", "Turku is a city.", "", "2.1  History", "It was founded in 1229."])]
    document = reader.one(pdf(pages, outline=[("Introduction", 0), ("History", 0), ("Nowhere", 0)]), "a.pdf")
    assert [(one.headings, one.text) for one in document.sections] == [
        ((), "Turku is a city."),
        (("2.1 History",), "It was founded in 1229."),
    ]


def test_the_name_of_a_chapter_above_its_pages_is_no_text(reader: Reader) -> None:
    """It stands on three of ten pages; numbers alone, as a table ends with, stand there too, and are kept."""
    pages = [
        column([f"Chapter {n // 3}: {'abcd'[n // 3] * 5} {n}", f"Page about {'xyz'[n % 3]}.", "", "12 15"])
        for n in range(10)
    ]
    numbered = [lines if n < 4 else lines[:-1] for n, lines in enumerate(pages)]
    texts = [text for _, _, text in places(reader, pdf(numbered))]
    assert texts[:4] == [f"Page about {letter}. 12 15" for letter in "xyzx"]
    assert texts[9] == "Chapter 3: ddddd 9 Page about x."  # on one page alone


def test_the_largest_type_of_the_first_page_is_the_title(reader: Reader) -> None:
    pages = [
        [Line("Numbats", 800, 24), Line("of Australia", 772, 24), *column(["Introduction", *["They live alone."] * 9])]
    ]
    document = reader.one(pdf(pages, outline=[("Introduction", 0)]), "a.pdf")
    assert document.title == "Numbats of Australia"
    assert document.sections[-1].headings == ("Introduction",)


def test_a_heading_as_large_as_the_title_is_no_part_of_it(reader: Reader) -> None:
    pages = [
        [
            *(Line("Loan agreement", 780, 18), *column(["The ship model is lent."] * 5, top=748)),
            *(Line("Transport", 660, 18), *column(["It travels in a crate."] * 5, top=628)),
        ]
    ]
    document = reader.one(pdf(pages), "a.pdf")
    assert document.title == "Loan agreement"
    assert [section.headings for section in document.sections] == [(), ("Transport",)]


def test_what_repeats_is_text_where_there_is_no_other(reader: Reader) -> None:
    assert "Only this." in reader.one(pdf([column(["Only this."])] * 3, title="Title"), "a.pdf").sections[0].text


def test_what_repeats_on_two_pages_is_text(reader: Reader) -> None:
    pages = [column(["Whose is this?", f"It is number {number}'s."]) for number in range(2)]
    assert [text for _, _, text in places(reader, pdf(pages))].count("Whose is this? It is number 0's.") == 1


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.99])
def test_truncated(reader: Reader, share: float) -> None:
    whole = pdf(PAGES)
    cut = whole[: int(len(whole) * share)]
    assert (
        reader.refusal(cut, "a.pdf") == f"a.pdf is a truncated PDF: its end mark is missing behind byte {len(cut):,}."
    )


def test_damaged(reader: Reader) -> None:
    assert reader.refusal(b"%PDF-1.7\n" + b"x" * 500 + b"\n%%EOF", "a.pdf").startswith("a.pdf is a damaged PDF: ")


def test_a_page_that_is_missing(reader: Reader) -> None:
    broken = pdf(PAGES).replace(b"/Kids [4 0 R 6 0 R 8 0 R]", b"/Kids [4 0 R 99 0 R 8 0 R]")
    assert reader.refusal(broken, "a.pdf").startswith("a.pdf cannot be read beyond page 2 of 3: ")


def test_encrypted(reader: Reader) -> None:
    assert reader.refusal(pdf(PAGES, password="x"), "a.pdf") == "a.pdf is encrypted; save it without a password."


def test_a_pdf_without_text_is_refused(reader: Reader) -> None:
    assert reader.refusal(pdf([[], []]), "scan.pdf") == (
        "scan.pdf holds no text on its 2 pages; it is probably scanned. Recognise its text (OCR) first."
    )


def test_some_pages_without_text(reader: Reader) -> None:
    document = reader.one(pdf([PAGES[0], [], PAGES[2], []]), "a.pdf")
    assert document.warnings == ("2 of 4 pages hold no text (2, 4); they may be scanned.",)
    assert {section.page for section in document.sections} == {1, 3}


def test_only_a_title(reader: Reader) -> None:
    pages = [[Line("Only a title", 700, 30), *[Line(".", 600 - n * 12, 10) for n in range(20)]]]
    assert reader.one(pdf(pages), "a.pdf").title == "Only a title"
    told = reader.refusal(pdf([[Line("Title", 700, 11)]], outline=[("Title", 0)]), "a.pdf")
    assert told == "a.pdf holds no text: only a title ('Title')."


def test_limits(reader: Reader) -> None:
    assert reader.refusal(pdf(PAGES), "a.pdf", pages=2) == "a.pdf has 3 pages, more than the limit of 2."
    assert "holds more than 100 characters" in reader.refusal(pdf(PAGES), "a.pdf", characters=100)


def test_a_stream_that_unpacks_to_much(reader: Reader) -> None:
    """PDFium bounds what it unpacks of one stream; the page is then without text, not the memory full."""
    packed = zlib.compress(bytes(200 << 20), 9)
    content = pdf([[]]).replace(
        b"<< /Length 0 >>\nstream\n", b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s" % (len(packed), packed)
    )
    assert "holds no text on its page" in reader.refusal(content, "a.pdf")
