"""Tables of PDFs: a sentence for each row, as of every other format, and what must not become a table."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest

from realm_core.documents.pdf_tables.table import TableBudget
from tests.core.documents.files import Reader
from tests.core.documents.pdfs import Drawn, Line, Tag, column, pdf

NAMES = ["Boat length", "Pontoon", "Trot"]
ROWS = [["up to 6 m", "£890", "£410"], ["6 to 8 m", "£1,265", "£560"], ["8 to 10 m", "£1,640", "£720"]]
SENTENCES = [f"Boat length: {length}; Pontoon: {pontoon}; Trot: {trot}." for length, pontoon, trot in ROWS]
XS = [70, 200, 300, 400]
HEIGHT = 20.0  # of a row
PROSE = "The numbat is an insectivorous marsupial that is native to Western Australia."

Content = list[Line | Drawn]


def lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


def texts(reader: Reader, data: bytes) -> list[str]:
    return [line for section in reader.one(data, "a.pdf").sections for line in lines(section.text)]


def words(rows: Sequence[Sequence[str]], top: float = 700.0, *, bold: int = 1, xs: Sequence[float] = XS) -> Content:
    """Cells as programs write them, row by row; one over several lines has line breaks in it."""
    written: Content = []
    for number, row in enumerate(rows):
        for x, cell in zip(xs, row, strict=False):
            for below, part in enumerate(cell.split("\n")):
                font = "B" if number < bold else "F"
                if part:
                    written.append(Line(part, top - number * HEIGHT - 14 - below * 12, x=x + 4, font=font))
    return written


def across(ys: Sequence[float], xs: Sequence[float] = XS) -> Content:
    return [Drawn(f"{xs[0]} {y} m {xs[-1]} {y} l S") for y in ys]


def down(top: float, bottom: float, xs: Sequence[float] = XS) -> Content:
    return [Drawn(f"{x} {top} m {x} {bottom} l S") for x in xs]


def ys(rows: int, top: float = 700.0) -> list[float]:
    return [top - number * HEIGHT for number in range(rows + 1)]


def grid(rows: Sequence[Sequence[str]], top: float = 700.0, *, bold: int = 1) -> Content:
    return [*across(ys(len(rows), top)), *down(top, top - len(rows) * HEIGHT), *words(rows, top, bold=bold)]


def shaded(row: int, colour: float, top: float = 700.0) -> Content:
    bottom = top - (row + 1) * HEIGHT
    boxes = " ".join(f"{left} {bottom} {right - left} {HEIGHT} re f" for left, right in pairwise(XS))
    return [Drawn(f"{colour} g {boxes} 0 g")]


def stripes(colours: dict[int, float], top: float = 700.0) -> Content:
    """Rows shaded as a whole, by a box each."""
    return [
        Drawn(f"{colour} g {XS[0]} {top - (row + 1) * HEIGHT} {XS[-1] - XS[0]} {HEIGHT} re f 0 g")
        for row, colour in colours.items()
    ]


def page(table: Content) -> Content:
    """A table with text above and below."""
    above, below = column(["All prices include VAT."], top=740), column(["Visitors pay by the night."], top=560)
    return [*above, *table, *below]


STYLES: dict[str, Content] = {
    "grid": grid([NAMES, *ROWS]),
    "boxes": [
        *[Drawn(f"{x} {y - HEIGHT} 100 {HEIGHT} re S") for y in ys(3) for x in (100, 200, 300)],
        *words([NAMES, *ROWS], xs=(100, 200, 300)),
    ],
    "borders apart": [
        *[Drawn(f"{x + 1} {y - 19} 98 18 re S") for y in ys(3) for x in (100, 200, 300)],
        *words([NAMES, *ROWS], xs=(100, 200, 300)),
    ],
    "thin boxes": [
        *[Drawn(f"70 {y} 330 0.7 re f") for y in ys(4)],
        *[Drawn(f"{x} 620 0.7 80 re f") for x in XS],
        *words([NAMES, *ROWS]),
    ],
    "a line below each row": [*across(ys(4)[1:]), *words([NAMES, *ROWS])],
    "lines around headings and at the end": [*across([700, 680, 620]), *words([NAMES, *ROWS], bold=0)],
    "every other row shaded": [*shaded(1, 0.9), *shaded(3, 0.9), *words([NAMES, *ROWS])],
    "rows shaded as a whole": [*stripes({0: 0.7, 1: 0.9, 2: 0.8, 3: 0.9}), *words([NAMES, *ROWS], bold=0)],
    "every other row shaded as a whole": [*stripes({0: 0.7, 2: 0.9}), *words([NAMES, *ROWS], bold=0)],
    "headings shaded": [*shaded(0, 0.8), *words([NAMES, *ROWS], bold=0)],
    "no lines between some columns": [
        *across(ys(4)),
        *down(700, 680),
        *down(700, 620, [70, 400]),
        *words([NAMES, *ROWS]),
    ],
}


@pytest.mark.parametrize("style", STYLES)
def test_each_row_is_a_sentence(reader: Reader, style: str) -> None:
    expected = ["All prices include VAT.", *SENTENCES, "Visitors pay by the night."]
    assert texts(reader, pdf([page(STYLES[style])])) == expected


def test_columns_without_lines_are_read_line_by_line(reader: Reader) -> None:
    rows = [["Mooring", "Pontoon", "Trot"], *ROWS]
    content = [*column([PROSE] * 2, top=740, leading=20), *words(rows, bold=0), Line("Visitors pay by the night.", 606)]
    assert texts(reader, pdf([content])) == [
        f"{PROSE} {PROSE}", *(" ".join(row) for row in rows), "Visitors pay by the night.",
    ]  # fmt: skip


def test_two_tables_below_one_another(reader: Reader) -> None:
    """With lines across alone and of one width; what stands between them is a heading."""
    tables = [[*across(ys(4, top)[1:]), *words([NAMES, *ROWS], top)] for top in (700.0, 590.0)]
    content = [*column([PROSE] * 3, top=760), *tables[0], Line("Moorings", 600, 13), *tables[1]]
    sections = reader.one(pdf([content], title="Prices"), "a.pdf").sections
    assert [(one.headings, lines(one.text)[-3:]) for one in sections] == [((), SENTENCES), (("Moorings",), SENTENCES)]


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_pages_that_are_turned(reader: Reader, turn: int) -> None:
    """What stands upright once the page is turned."""
    matrix = {90: "0 1 -1 0 595 0", 180: "-1 0 0 -1 595 842", 270: "0 -1 1 0 0 842"}[turn]
    table: Content = [Drawn(f"{matrix} cm"), *grid([NAMES, *ROWS], 500)]
    assert texts(reader, pdf([table], page_entries=f"/Rotate {turn}")) == SENTENCES


def test_a_page_that_is_cropped(reader: Reader) -> None:
    data = pdf([page(STYLES["grid"])], page_entries="/CropBox [50 500 500 800]")
    assert texts(reader, data)[1:-1] == SENTENCES


def test_cells_of_several_lines_and_over_several_columns(reader: Reader) -> None:
    rows = [
        ["Boat", "Berths", ""],
        ["", "Pontoon", "Trot"],
        ["Multi-\nhull or\nwide", "£1", "£2"],
        ["Other", "£3", "£4"],
    ]
    table: Content = [
        *across([700, 660, 610, 590]),
        *across([680], [200, 400]),  # the first heading is over two rows
        *down(700, 590, [70, 200, 400]),
        *down(680, 590, [300]),  # the second over two columns
    ]
    written = [*words(rows[:2], bold=2), *words(rows[2:3], 660, bold=0), *words(rows[3:], 610, bold=0)]
    assert texts(reader, pdf([[*table, *written]])) == [
        "Boat: Multihull or wide; Berths Pontoon: £1; Berths Trot: £2.",
        "Boat: Other; Berths Pontoon: £3; Berths Trot: £4.",
    ]


@pytest.mark.parametrize("repeated", [True, False], ids=["with its headings again", "without them"])
def test_a_table_over_three_pages(reader: Reader, repeated: bool) -> None:
    """Each row is on its own page, under the headings of the first."""
    names = [NAMES] if repeated else []
    parts = [[NAMES, *ROWS], *([*names, [f"boat {page}", "£1", "£2"], ["other", "£3", "£4"]] for page in (2, 3))]
    pages = [
        [*column(["All prices include VAT."], top=740), *grid(parts[0])],
        grid(parts[1], 780, bold=len(names)),
        [*grid(parts[2], 780, bold=len(names)), *column(["Visitors pay by the night."], top=600)],
    ]
    sections = reader.one(pdf(pages), "a.pdf").sections
    rest = "Boat length: boat {0}; Pontoon: £1; Trot: £2.\nBoat length: other; Pontoon: £3; Trot: £4."
    assert [(one.page, one.text) for one in sections] == [
        (1, "\n".join(["All prices include VAT.", *SENTENCES])),
        (2, rest.format(2)),
        (3, rest.format(3) + "\nVisitors pay by the night."),
    ]


def test_a_row_that_a_page_break_divides(reader: Reader) -> None:
    second: Content = [*across(ys(2, 780)), *down(780, 740), *words([["", "and so on", ""], ROWS[1]], 780, bold=0)]
    pages = [grid([NAMES, ["up to 6 m", "on request", "£410"]]), second]
    assert texts(reader, pdf(pages)) == [
        "Boat length: up to 6 m; Pontoon: on request and so on; Trot: £410.",
        SENTENCES[1],
    ]


def test_one_row_alone_is_part_of_a_table_or_text(reader: Reader) -> None:
    rest = grid([ROWS[2]], 780, bold=0)
    assert texts(reader, pdf([grid([NAMES, *ROWS[:2]]), rest])) == SENTENCES
    assert texts(reader, pdf([column(["Text."]), rest]))[-1] == "8 to 10 m £1,640 £720"


def test_tables_on_most_pages_are_not_running_headers(reader: Reader) -> None:
    pages = [grid([NAMES, *ROWS], bold=1) for _ in range(4)]
    assert texts(reader, pdf(pages)).count(SENTENCES[0]) == 4


def test_links_of_a_table(reader: Reader) -> None:
    document = reader.one(pdf([page(STYLES["grid"])], link="https://example.org/"), "a.pdf")
    assert document.links == ("https://example.org/",)


def tagged() -> tuple[list[Content], list[Tag]]:
    """A table that is only aligned, over two pages, its last row divided; the headings are repeated as no content."""
    cells = [[*NAMES], *ROWS]
    first: Content = [Line("All prices include VAT.", 740, marked=0)]
    tags: list[Tag] = []
    for number, row in enumerate(cells):
        kind = "TH" if number == 0 else "TD"
        own = [Tag(kind, [], [(0, 1 + 3 * number + place)]) for place in range(3)]
        for place, text in enumerate(row):
            first.append(Line(text, 700 - 14 * number, x=XS[place], marked=1 + 3 * number + place))
        if number == 3:
            own[2] = Tag(kind, [], [(0, 12), (1, 0)])
        tags.append(Tag("TR", own))
    second: Content = [Line(text, 760, x=x) for text, x in zip(NAMES, XS, strict=False)]
    second += [
        Line("on request", 740, x=XS[2], marked=0),
        Line("11 m", 720, marked=1),
        Line("£2", 720, x=200, marked=2),
    ]
    tags.append(Tag("TR", [Tag("TD", [], [(1, 1)]), Tag("TD", [], [(1, 2)], "/ColSpan 2")]))
    return [first, [*second, Line("Visitors pay.", 690, marked=3)]], [
        Tag("P", [], [(0, 0)]), Tag("Table", tags), Tag("P", [], [(1, 3)]),
    ]  # fmt: skip


def test_tags_say_what_a_table_is(reader: Reader) -> None:
    pages, tags = tagged()
    sections = reader.one(pdf(pages, structure=[Tag("Document", tags)]), "a.pdf").sections
    assert [(one.page, lines(one.text)) for one in sections] == [
        (1, ["All prices include VAT.", *SENTENCES[:2], SENTENCES[2][:-1] + " on request."]),
        (2, ["Boat length: 11 m; Pontoon, Trot: £2.", "Visitors pay."]),
    ]


@pytest.mark.parametrize("inside", ["H2", "Table"])
def test_tables_for_layout_are_text(reader: Reader, inside: str) -> None:
    """Whose cells hold headings or tables, as of HTML."""
    tags = [Tag("TR", [Tag("TD", [Tag(inside, [], [(0, 0)])]), Tag("TD", [], [(0, 1)])])] * 2
    content: Content = [Line("Left words", 700, marked=0), Line("right words", 700, x=300, marked=1)]
    assert texts(reader, pdf([content], structure=[Tag("Table", tags)])) == ["Left words right words"]


def test_tags_that_go_round_in_circles(reader: Reader) -> None:
    """A row whose first part is the table."""
    pages, tags = tagged()
    data = pdf(pages, structure=[Tag("Document", tags)])
    table = re.search(rb"(\d+) 0 obj\n<< /Type /StructElem /S /Table ", data)
    row = re.search(rb"/S /TR /P \d+ 0 R /K \[(\d+)", data)
    assert table is not None and row is not None and len(table[1]) == len(row[1])
    data = data[: row.start(1)] + table[1] + data[row.end(1) :]
    assert "All prices include VAT." in texts(reader, data)[0]


def prose(x: float, top: float, count: int = 9) -> Content:
    return [Line(PROSE[5 * n : 5 * n + 38], top - 13 * n, x=x, size=10) for n in range(count)]


NO_TABLES: dict[str, Content] = {
    "columns of prose between lines": [*across([720, 560, 540]), *prose(72, 700), *prose(262, 700)],
    "columns of prose with a line between": [*across([720, 560]), *down(720, 560, [70, 250, 400]), *prose(72, 700)],
    "a box around a paragraph": [Drawn("60 570 300 150 re S"), *prose(72, 700)],
    "a box with a title": [
        Drawn("60 570 300 150 re S 0.8 g 60 700 300 20 re f 0 g"), Line("Note", 705), *prose(72, 680, 6),
    ],
    "a page's frame": [
        Drawn("20 20 555 800 re S"), *across([720, 640, 560], [20, 575]),
        *prose(72, 700, 3), *prose(72, 620, 3), *prose(72, 540, 3),
    ],
    "a form": [
        Drawn("160 696 m 400 696 l S 160 676 m 400 676 l S 160 656 m 400 656 l S"),
        *column(["Name:", "Address:", "Date:"], top=698, leading=20),
    ],
    "a form of boxes": [
        *across(ys(4)), *down(700, 620), *words([[name, "", ""] for name in ("Name", "Street", "Date")], bold=0),
    ],
    "lists": [
        *across([720, 650, 580]),
        *[part for n in range(8)
          for part in (Line("•", 700 - 14 * n, x=80), Line(f"item number {n}", 700 - 14 * n, x=110))],
    ],
    "code": [
        *across([720, 680, 660, 640]),
        *[part for n, text in enumerate(("alpha = 1", "bet = 22", "gam = 3", "delta = 4"))
          for part in (Line(text, 700 - 20 * n, font="C"), Line("# a comment", 700 - 20 * n, x=300, font="C"))],
    ],
    "lines under headings": [
        *across([695, 645, 595]), Line("Income", 698), *prose(72, 680, 2),
        Line("Costs", 648), *prose(72, 630, 2), Line("Rest", 598), *prose(72, 580, 2),
    ],
    "a bar chart": [
        *across(range(500, 700, 40)), *down(700, 500), Drawn("0.5 g 100 500 30 90 re f 150 500 30 60 re f 0 g"),
        *[Line(str(y), y, x=45) for y in range(500, 700, 40)], *[Line(f"Q{x}", 485, x=x) for x in XS],
    ],
    "boxes of prose below one another": [
        *stripes({0: 0.9, 1: 0.8, 2: 0.9, 3: 0.8}), *[Line(PROSE[:60], 686 - 20 * n, x=80) for n in range(4)],
    ],
    "columns of prose on stripes": [*stripes(dict.fromkeys(range(0, 8, 2), 0.9)), *prose(72, 700), *prose(262, 700)],
    "buttons side by side": [*shaded(0, 0.9), *words([["Home", "About us", "Contact"]], bold=0)],
    "words underlined": [
        Line("some words and some others", 700),
        Drawn("72 698 m 100 698 l S 130 698 m 160 698 l S 72 690 m 99 690 l S"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("content", NO_TABLES)
def test_what_is_no_table(reader: Reader, content: str) -> None:
    """It is read as it is without the lines and boxes."""
    drawn = NO_TABLES[content]
    without = [line for line in drawn if isinstance(line, Line)]
    assert texts(reader, pdf([drawn])) == texts(reader, pdf([without]))


HOSTILE = {
    "many boxes": " ".join(f"{n % 600} {n % 797} 5 5 re f" for n in range(100_000)),
    "one path": " ".join(f"{n % 600} {n % 797} m {n % 600 + 90} {n % 797} l" for n in range(100_000)) + " S",
    "many lines": " ".join(f"0 {4 * n} m 600 {4 * n} l S {3 * n} 0 m {3 * n} 800 l S" for n in range(200)),
    "sizes": "0 0 0 0 re S 5 5 m 5 5 l S 1e38 0 m 1e38 1e38 l S -1e38 -1e38 3e38 3e38 re B "
    "9e37 0 0 9e37 0 0 cm 1 1 8 8 re S",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_drawings(reader: Reader, name: str) -> None:
    content: Content = [Line("Turku is a city.", 700), Drawn(HOSTILE[name])]
    start = time.process_time()
    assert texts(reader, pdf([content])) == ["Turku is a city."]
    assert time.process_time() - start < 10


def test_too_many_drawings_for_all_tables(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is behind them is text, and a warning says so."""
    monkeypatch.setattr("realm_core.documents.pdf.TableBudget", lambda: TableBudget(objects=100))
    document = reader.one(pdf([page(STYLES["grid"]), page(STYLES["grid"])]), "a.pdf")
    assert "Boat length: up to 6 m" not in document.sections[-1].text
    assert document.warnings == ("Its pages are too full for all of its tables: behind page 1 they are text.",)
