"""Tables in plain text become sentences, as those of other formats do; text that only holds tabs and bars stays."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm_core.documents.draft import Budget, Draft
from realm_core.documents.plain import read_text
from realm_core.documents.records import Limits
from tests.core.documents.files import Reader

NORWAY = "Country: Norway; Capital: Oslo; Population: 5,500,000."
SWEDEN = "Country: Sweden; Capital: Stockholm; Population: 10,500,000."
TABS = "Country\tCapital\tPopulation\nNorway\tOslo\t5,500,000\nSweden\tStockholm\t10,500,000"
BARS = (
    "| Country | Capital | Population |\n|:--|:-:|--:|\n| Norway | Oslo | 5,500,000 |\n"
    "| **Sweden** | Stockholm | 10,500,000 |"
)


def _read(text: str) -> list[str]:
    """The paragraphs of a plain text."""
    draft = Draft("text", "a.txt", Budget(Limits()))
    read_text(text, draft)
    return draft.finish().sections[0].text.split("\n")


@pytest.mark.parametrize(
    "table", [TABS, TABS.replace("\n", "\r\n"), BARS, BARS.replace("| ", "|").replace("\n|", "\n")]
)
def test_tables_are_sentences_where_they_stand(reader: Reader, table: str) -> None:
    assert reader.one(table, "a.txt").sections[0].text.split("\n") == [NORWAY, SWEDEN]
    document = reader.one(f"Countries\n\nThese are two.\n{table}\n\n\nThere are more.\nAnd more.", "a.txt")
    assert document.title == "Countries"
    assert document.sections[0].text.split("\n") == ["These are two.", NORWAY, SWEDEN, "There are more.", "And more."]


@pytest.mark.parametrize(
    ("text", "paragraphs"),
    [
        ("Opens:\tnine\nCloses:\tsix\n", ["Opens: nine.", "Closes: six."]),
        ("\tOslo\tBergen\nInhabitants\t717,710\t291,940", ["Inhabitants; Oslo: 717,710; Bergen: 291,940."]),
        ("Day\tFrom\tTo\nMon\t9\t\n\t\t\nSun\t10\t12", ["Day: Mon; From: 9.", "Day: Sun; From: 10; To: 12."]),
        ("Name\t\tAge\nAda\t\t36\n", ["Name: Age.", "Ada: 36."]),
        ('A\tB\tC\n"two\nlines"\t"15"" wide"\t"so"', ['A: two lines; B: 15" wide; C: "so".']),
        ("No\tOf\tArea\n1.\tRussia\t17\n2.\tUSA\t9", ["No: 1.; Of: Russia; Area: 17.", "No: 2.; Of: USA; Area: 9."]),
        ("Red\t#FF0000\nBlue\t#0000FF", ["Red: #FF0000.", "Blue: #0000FF."]),
        ("A\tB\tC\n1\t2\t3\nX\tY\n4\t5", ["A: 1; B: 2; C: 3.", "X: Y.", "4: 5."]),
        ("Country\tCapital\nNorway\tOslo", ["Country: Capital.", "Norway: Oslo."]),
        (
            "Inhabitants at the end of the year\t717,710\nInhabitants at the beginning of the year\t709,037",
            ["Inhabitants at the end of the year: 717,710.", "Inhabitants at the beginning of the year: 709,037."],
        ),
        (
            "Atlas\tA book of maps, bound.\nIndex\tA list of words and where they are.\nEtc.\tand so on",
            ["Atlas: A book of maps, bound.", "Index: A list of words and where they are.", "Etc.: and so on."],
        ),
        ("Fee\t5 Fr.\nDeposit\t20 Fr.", ["Fee: 5 Fr.", "Deposit: 20 Fr."]),
        ("a | b\n--|--\nx \\| y | `z`\nNo row.", ["a: x | y; b: z.", "No row."]),
        ("A\x0bB\nx | y\n-|-\n1 | 2", ["A", "B", "x: 1; y: 2."]),
    ],
    ids=[
        *("pairs", "corner", "blank cells", "aligned", "quoted", "ranks", "colours", "widths", "capitals"),
        *("long names", "definitions", "abbreviations", "bars", "other breaks"),
    ],
)  # fmt: skip
def test_tables(text: str, paragraphs: list[str]) -> None:
    assert _read(text) == paragraphs


@pytest.mark.parametrize(
    "text",
    [
        "The library\topens at nine.\nIt closes at six.",
        "The library opens at nine.\tIt closes at six.\nThe museum opens at ten.\tIt closes at five.",
        "Dear Anna,\tOslo\nthank you for\tyesterday",
        "Dear Anna,\tOslo\nthank you for\tyesterday\nBest wishes\tBen",
        "The library\topens at nine.\nIt\tcloses at six.",
        "In the morning we went to the\tmarket and bought\nfish and bread and then we went\tback to the house",
        "Milk;\tbread\nfish;\tsalt",
        "\tThe library opens at nine.\n\tIt closes at six.",
        "\tName\tAge\n\tAda\t36",
        "•\tOpens at nine\n•\tCloses at six\no\tOn Sundays, too",
        "1.\tOpens at nine\n2.\tCloses at six",
        "1.1\tThe library opens.\n1.2\tIt closes.\n1.2.1\tAt six.",
        "a)\tOpens at nine\nb)\tCloses at six",
        "if opens:\n\treturn nine\n\treturn six\nelse:\n\tpass",
        "def opens(day):\t# an hour\n\treturn nine\n\treturn six",
        "int opens;\t// the hour\nint closes;\t// the other",
        "struct {\n\tint\topens;\n\tint\tcloses;\n}",
        "CC\t= gcc\nCFLAGS\t= -O2",
        "#define OPENS\t9\n#define CLOSES\t18",
        "cat hours | sort | head\nls | wc",
        "either | or",
        "either | or\n--- | ---",
        "either | or\n-----------\nnine | ten",
        "    | a | b |\n    |---|---|\n    | 1 | 2 |",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert _read(text) == [" ".join(line.split()) for line in text.split("\n")]


words = st.text("abcdefghijklmnopqrstuvwxyzäé", min_size=2, max_size=8)
tables = st.integers(3, 6).flatmap(
    lambda width: st.tuples(
        st.lists(words, min_size=width, max_size=width),
        st.lists(st.lists(words | st.integers().map(str), min_size=width, max_size=width), min_size=1, max_size=5),
    )
)


@given(table=tables, before=st.lists(words, max_size=3), after=st.lists(words, max_size=3))
def test_each_row_says_the_names_of_its_columns(
    table: tuple[list[str], list[list[str]]], before: list[str], after: list[str]
) -> None:
    names, rows = table
    told = ["; ".join(f"{name}: {cell}" for name, cell in zip(names, row, strict=True)) + "." for row in rows]
    tabs = ["\t".join(row) for row in (names, *rows)]
    bars = ["|".join(row) for row in (names, ["-"] * len(names), *rows)]
    for lines in (tabs, bars):
        blank = [""] if lines is bars and after else []  # which ends a table of Markdown
        assert _read("\n".join([*before, *lines, *blank, *after])) == [*before, *told, *after]


@given(st.lists(st.text("ab |-\t.:;#•1\"'", max_size=20), min_size=1, max_size=8))
def test_no_word_is_lost(lines: list[str]) -> None:
    text = "\n".join(["start.", *lines])  # no title
    assert set(re.findall(r"\w+", text)) <= set(re.findall(r"\w+", " ".join(_read(text))))


@given(st.lists(st.text("ab .,\t", max_size=60), min_size=1, max_size=5))
def test_a_stray_tab_is_a_space(lines: list[str]) -> None:
    text = "start\n" + "\nand a line\n".join(lines)
    assert _read(text) == _read(text.replace("\t", " "))
