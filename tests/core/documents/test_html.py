"""HTML: the article of a page, whatever else stands on it, and pages that mean harm."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from tests.core.documents.files import Reader, shown

MENU = "<div class=menu>" + "".join(f"<a href='/{n}'>Section number {n}</a> " for n in range(60)) + "</div>"
SENTENCE = "This is a sentence about the matter at hand, and it is long enough to count. "


def test_headings_tables_lists_and_links(reader: Reader) -> None:
    document = reader.one(
        """<!doctype html><html lang="en-GB"><head><title>Turku - A site</title></head><body>
        <nav><a href="https://example.org/home">Home</a></nav>
        <main><h1>Turku</h1><p>A city in <a href="https://example.org/finland">Finland</a>,<br>at the Aura.</p>
        <h2>Facts</h2><table><tr><th>Population</th><td>206,035</td></tr><tr><th>Founded</th><td>1229</td></tr></table>
        <h3>People</h3><table><tr><th>Year</th><th>Mayor</th></tr><tr><td>2017</td><td>Minna&nbsp;Arve</td></tr></table>
        <ul><li>the castle</li><li>the <i>cathedral</i><ul><li>its tower</li></ul></li></ul>
        <dl><dt>Area:</dt><dd>306 km²</dd><dt>Name in Swedish</dt><dd>Åbo</dd></dl></main>
        <footer>Copyright</footer></body></html>""",
        "turku.html",
    )
    assert (document.title, document.language) == ("Turku", "en")
    assert shown(document) == [
        ((), "A city in Finland,\nat the Aura."),
        (("Facts",), "Population: 206,035.\nFounded: 1229."),
        (
            ("Facts", "People"),
            "Year: 2017; Mayor: Minna Arve.\nthe castle.\nthe cathedral.\nits tower.\n"
            "Area: 306 km².\nName in Swedish: Åbo.",
        ),
    ]
    assert document.links == ("https://example.org/finland",)


def test_menus_are_not_the_article(reader: Reader) -> None:
    parts = "".join(f"<h2>Part {number}</h2><p>{SENTENCE * 6}</p>" for number in range(8))
    document = reader.one(
        f"<html><head><title>T</title></head><body>{MENU}<div id=content>{parts}</div>"
        f"<div class=related><h3><a href=/r>Related</a></h3>{MENU}</div></body></html>",
        "a.html",
    )
    assert [section.headings for section in document.sections] == [(f"Part {number}",) for number in range(8)]
    assert "Section number" not in str(document.sections)


def test_marks_within_a_sentence_do_not_divide_it(reader: Reader) -> None:
    document = reader.one(
        "<h2>Use of <code>make</code><a href='#use'>¶</a></h2><p>Call <code>make run</code>, <b>n</b>ot "
        f"<a href='https://example.org/'>this</a>.</p><p>{SENTENCE * 9}</p>",
        "a.html",
    )
    assert document.sections[0].text.startswith("Call make run, not this.\n")
    assert document.title == "Use of make"


def test_tables_for_layout_are_read_as_text(reader: Reader) -> None:
    document = reader.one(
        "<table><tr><td><p>Words.</p><table><tr><td>a</td><td>1</td></tr></table></td></tr></table>", "a.html"
    )
    assert document.sections[0].text == "Words.\na: 1."


@pytest.mark.parametrize("prose", ["", f"<p>{SENTENCE * 9}</p>"], ids=["alone", "within an article"])
def test_tables_in_a_layout_stay_under_their_headings(reader: Reader, prose: str) -> None:
    """And what an infobox says beside a table in it stays a name with its value."""
    cities = "<table><tr><th>Kemi</th><td>20,000</td></tr></table>"
    towns = "<table><tr><th>Ii</th><td>9,900</td></tr></table>"
    page = (
        f"<h1>Places</h1>{prose}<table><tr><td><h2>Cities</h2>{cities}</td><td><h2>Towns</h2>{towns}</td></tr></table>"
        f"<h2>Lapland</h2><table><caption>Area</caption><tr><th>Land</th><td>92 km²</td></tr>"
        f"<tr><td colspan=2>{cities}</td></tr><tr><th>Lakes</th><td>6 km²</td></tr></table>"
    )
    document = reader.one(f"<html><body>{page}</body></html>", "a.html")
    assert [(one.headings, one.text) for one in document.sections][-3:] == [
        (("Cities",), "Kemi: 20,000."),
        (("Towns",), "Ii: 9,900."),
        (("Lapland",), "Area\nLand: 92 km².\nKemi: 20,000.\nLakes: 6 km²."),
    ]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ('<?xml version="1.0" encoding="iso-8859-1"?><html><p>crème</p></html>'.encode("latin-1"), "crème"),
        ('<html><meta charset="windows-1251"><p>Москва</p></html>'.encode("cp1251"), "Москва"),
        ('<html><meta charset="latin-1"><p>It is UTF-8: é</p></html>'.encode(), "It is UTF-8: é"),
        ("<html><p>Turku</p></html>".encode("utf-16"), "Turku"),
    ],
)
def test_encodings(reader: Reader, data: bytes, text: str) -> None:
    assert reader.one(data, "a.html").sections[0].text == text


def test_a_page_that_states_the_wrong_encoding(reader: Reader) -> None:
    told = reader.refusal('<meta charset="utf-8"><p>crème</p>'.encode("latin-1"), "a.html")
    assert told == "a.html is not valid utf-8: byte 28, invalid continuation byte."


def test_scripts_styles_and_forms_are_not_read(reader: Reader) -> None:
    document = reader.one(
        "<body onload=x()><script>evil()</script><style>p{}</style><p onclick=y()>Words &lt;b&gt;.</p>"
        "<noscript>n</noscript><iframe src=x>i</iframe><form><input value=v><button>Buy</button></form><p hidden>h</p>"
        "<!-- c --><svg><text>s</text></svg><a href='javascript:alert(1)'>link</a>",
        "a.html",
    )
    assert shown(document) == [((), "Words <b>. link")]
    assert document.links == ()


@pytest.mark.parametrize("tag", ["div", "b", "table><tr><td", "ul><li", "blockquote"])
def test_elements_nested_too_deeply(reader: Reader, tag: str) -> None:
    start = time.process_time()
    told = reader.refusal(f"<html><body><p>Read so far.</p>{f'<{tag}>' * 100_000}deep", "a.html")
    assert told.startswith("a.html cannot be read beyond line 1, column ")
    assert told.endswith(": its elements are nested too deeply.")
    assert time.process_time() - start < 10


def test_entities_are_resolved_within_limits(reader: Reader) -> None:
    document = reader.one("<p>caf&eacute; &amp; &bogus; &#x41;&#0;&#xD800;&#x110000;</p>", "a.html")
    document.sections[0].text.encode()
    assert document.sections[0].text.startswith("café & &bogus; A")
    declared = '<!ENTITY a "aaaa"><!ENTITY b "&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">'
    text = reader.one(f"<!DOCTYPE html [{declared}]><p>x &b; &c;</p>", "a.html").sections[0].text
    assert "aaaa" not in text and "root:" not in text


def test_many_elements_take_seconds(reader: Reader) -> None:
    start = time.process_time()
    document = reader.one("<p>a <b>word</b></p>" * 10_000 + "<table>" + "<tr><td>x<td>y" * 4_000, "a.html")
    assert document.sections[0].text.count("\n") > 12_000
    assert time.process_time() - start < 60


def test_only_a_title(reader: Reader) -> None:
    assert (
        reader.refusal("<title>Only</title><script>x</script>", "a.html")
        == "a.html holds no text: only a title ('Only')."
    )
    assert reader.refusal("<html></html>", "a.html") == "a.html holds no text: nothing that can be read."


CITIES = """<table><caption>Cities</caption><tr><th>City</th><th>Year</th><th>People</th></tr>
    <tr><td rowspan="2">Kemi</td><td>1990</td><td>26,000</td></tr><tr><td>2020</td><td>20,000</td></tr>
    <tr><td colspan="2">Whole country</td><td>46,000</td></tr></table>"""


@pytest.mark.parametrize("prose", ["", "<p>Some words of an article about the cities of a country follow.</p>" * 5])
def test_cells_over_several_rows_and_columns(reader: Reader, prose: str) -> None:
    """Within an article that trafilatura finds as well as in a page that is nothing else."""
    document = reader.one(f"<html><body><article><h1>Cities</h1>{prose}{CITIES}</article></body></html>", "a.html")
    assert document.sections[0].text.split("\n")[-4:] == [
        "Cities",
        "City: Kemi; Year: 1990; People: 26,000.",
        "City: Kemi; Year: 2020; People: 20,000.",
        "City, Year: Whole country; People: 46,000.",
    ]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("<tr><th colspan=3>Towns<tr><th rowspan=2>Town<th colspan=2>People<tr><th>1990<th>2020<tr><td>Ii<td>1<td>2",
         "Towns.\nTown: Ii; People 1990: 1; People 2020: 2."),
        ("<tr><th colspan=2>Town<th>People<tr><td>1<td>Ii<td>9,000", "Town: 1; Town: Ii; People: 9,000."),
        ("<tbody><tr><th rowspan=0>a<td>1<tr><td>2<tbody><tr><th>b<td>3", "a: 1.\na: 2.\nb: 3."),
        ("<tbody><tr><th rowspan=9>a<td>1<tbody><tr><th>b<td>3", "a: 1.\nb: 3."),
        ("<tr><th colspan=x rowspan=-2>a<td colspan=0>1<tr><th>b<td>2", "a: 1.\nb: 2."),
        ("<tr><td>a<td rowspan=2>b<tr><td colspan=2>c", "a: b.\nc: b."),
    ],
)  # fmt: skip
def test_spans(reader: Reader, rows: str, text: str) -> None:
    assert reader.one(f"<table>{rows}</table>", "a.html").sections[0].text == text


def test_spans_alone_cost_nothing(reader: Reader) -> None:
    """As a number they are bounded by the rows that are there; where those are there, too, as text is."""
    reader.one("<table><tr><td>a</table>", "a.html")  # imports the libraries
    tracemalloc.start()
    text = reader.one("<table><tr>" + "<td rowspan=65534>a" * 10 + "</table>", "a.html").sections[0].text
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert text == "; ".join("a" * 10) + "." and peak < 1_000_000
    many = "<table><tr>" + "<td rowspan=65534 colspan=1000>" * 3 + "a" + "<tr><td>b" * 100 + "</table>"
    assert "more than 9,999 characters" in reader.refusal(many, "a.html", characters=9_999)
    wide = "<table><tr>" + "<td colspan=1000>a" * 17 + "</table>"
    assert "a table of more than 16,384 columns" in reader.refusal(wide, "a.html")
