"""Markdown: headings become sections, tables and lists sentences."""

from __future__ import annotations

import time

from tests.core.documents.files import Reader, shown


def test_headings_lists_tables_and_links(reader: Reader) -> None:
    document = reader.one(
        "# Turku\n\nA *city* in [Finland](https://example.org/finland),\nand `old`.\n\n"
        "## Facts\n\n| Year | Mayor |\n|---|---|\n| 2017 | Minna Arve |\n| 2025 | |\n\n"
        "### Sights\n\n1. the castle\n2. the cathedral!\n   - its tower\n\n"
        "## Code\n\n```\nmake run\n```\n",
        "turku.md",
    )
    assert document.title == "Turku"
    assert shown(document) == [
        ((), "A city in Finland, and old."),
        (("Facts",), "Year: 2017; Mayor: Minna Arve.\nYear: 2025."),
        (("Facts", "Sights"), "the castle.\nthe cathedral!\nits tower."),
        (("Code",), "make run"),
    ]
    assert document.links == ("https://example.org/finland",)


def test_front_matter(reader: Reader) -> None:
    document = reader.one("---\ntitle: 'The numbat'\nlang: en-AU\ntags: [a]\n---\n# Diet\n\nTermites.\n", "a.md")
    assert (document.title, document.language) == ("The numbat", "en")
    assert shown(document) == [(("Diet",), "Termites.")]


def test_several_first_headings_are_no_title(reader: Reader) -> None:
    document = reader.one("# One\n\na\n\n# Two\n\nb\n", "both.md")
    assert document.title == "One"  # the first, for want of another
    assert shown(document) == [((), "a"), (("Two",), "b")]


def test_html_within(reader: Reader) -> None:
    document = reader.one(
        "<div align=center><script>alert(1)</script><b>Bold</b> words</div>\n\nA <b>line</b> &amp; more.\n", "a.md"
    )
    assert document.sections[0].text == "Bold words\nA line & more."


def test_tables_and_lists_of_html_within(reader: Reader) -> None:
    """As in a page of HTML; a blank line ends a piece of HTML, and not its table."""
    document = reader.one(
        "# Cities\n\n<table><tr><th>City</th><th>Year</th><th>People</th></tr>\n<tr><td rowspan=2>Kemi</td>"
        "<td>1990</td><td>a</td></tr>\n\n<tr><td>2020</td><td>b</td></tr></table>\n\n<ul><li>one</li><li>two</li></ul>\n\n"
        "<h2>More</h2>\n\n<tr><td>left</td><td>over</td></tr>\n\n"
        "| City | Near |\n|---|:-:|\n| Kemi<br>Tornio | a&nbsp;<i>b</i>c \\| d |\n| Ii |\n",
        "a.md",
    )
    assert shown(document) == [
        ((), "City: Kemi; Year: 1990; People: a.\nCity: Kemi; Year: 2020; People: b.\none.\ntwo."),
        (("More",), "left\nover\nCity: Kemi Tornio; Near: a bc | d.\nCity: Ii."),
    ]


def test_links_of_other_schemes_are_none(reader: Reader) -> None:
    document = reader.one("[a](javascript:alert(1)) [b](../b.md) [c](http://c.example/)", "a.md")
    assert document.links == ("http://c.example/",)


def test_only_a_title(reader: Reader) -> None:
    assert reader.refusal("# Only a title\n", "a.md") == "a.md holds no text: only a title ('Only a title')."


def test_nesting_takes_no_time(reader: Reader) -> None:
    start = time.process_time()
    reader.one(">" * 20_000 + " deep\n\n" + "[" * 20_000 + "\n\nEnd.\n", "a.md")
    assert time.process_time() - start < 30
