"""CSV and TSV: rows become sentences, and what is no table is refused by its line."""

from __future__ import annotations

import time

import pytest

from tests.core.documents.files import Reader

NORWAY = "Country: Norway; Capital: Oslo; Population: 5,500,000."


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ('Country,Capital,Population\nNorway,Oslo,"5,500,000"\n', "a.csv"),
        ('Country;Capital;Population\r\n"Norway";Oslo;5,500,000\r\n', "a.csv"),
        ("Country\tCapital\tPopulation\nNorway\tOslo\t5,500,000", "a.csv"),
        ("Country|Capital|Population\nNorway|Oslo|5,500,000", "a.csv"),
        ("Country\tCapital\tPopulation\nNorway\tOslo\t5,500,000", "a.tsv"),
        ("\ufeffCountry,Capital,Population,\n\nNorway,Oslo,'5',\n".replace("'5'", '"5,500,000"'), "a.csv"),
    ],
)
def test_rows_are_sentences(reader: Reader, data: str, name: str) -> None:
    document = reader.one(data, name)
    assert (document.title, document.sections[0].text) == ("a", NORWAY)


def test_cells(reader: Reader) -> None:
    data = ',2019,2020,Said\nNorway,"5\n",,"He said ""yes, now""!"\n ,,,\n"Å\rb",1,2,\n'
    assert reader.one(data, "a.csv").sections[0].text.split("\n") == [
        'Norway; 2019: 5; Said: He said "yes, now"!',
        "Å b; 2019: 1; 2020: 2.",
    ]


@pytest.mark.parametrize(
    ("data", "name", "told"),
    [
        ("Name,Year\nKemi,1990\nOulu,2020,x", "a.csv", "is no table: its line 3 has 3 cells, but line 1, which names"),
        ('Name,Year\n"Ke\nmi",1990\nOulu', "a.csv", "is no table: its line 4 has 1 cell, but line 1"),
        ("Some words.\nAnd others.", "a.csv", "is no table: its line 1 names 1 columns, and at least 2 are expected."),
        ("Name,Year\nOulu,2020", "a.tsv", "is no table: its line 1 names 1 columns"),
        ('Name,Year\nKemi,1990\n"Oulu,2020\nx,y', "a.csv", "in its row of line 3, unexpected end of data."),
        ('Name,Year\n"Oulu"x,2020', "a.csv", "in its row of line 2, ',' expected after '\"'."),
        ("Name,Year\nOulu," + "x" * 140_000, "a.csv", "in its row of line 2, field larger than field limit (131072)."),
        ("Norway,Oslo,5500000\nSweden,Stockholm,1", "a.csv", "names no columns: '5500000' in its line 1 is a number;"),
        ("Name,,Year\nOulu,,2020", "a.csv", "has a column without a name: column 2 in its line 1."),
        ("\n\nName,Year\n\n", "a.csv", "holds no row below line 3, which names the columns."),
        (" , \n", "a.csv", "is no table: its line 1 names 0 columns"),
    ],
)  # fmt: skip
def test_what_is_no_table_is_refused_by_its_line(reader: Reader, data: str, name: str, told: str) -> None:
    assert told in reader.refusal(data, name)


def test_long_names_and_many_cells_are_bounded(reader: Reader) -> None:
    start = time.process_time()
    names = "a" * 1000 + ",b\n"
    assert "more than 50,000 characters" in reader.refusal(names + "1,2\n" * 1000, "a.csv", characters=50_000)
    reader.refusal('"' * 60_001 + ",;|\t" * 60_000, "a.csv")
    assert time.process_time() - start < 5
