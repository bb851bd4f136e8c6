"""HTML: the article of a page, whatever else stands on it, and pages that mean harm."""

from __future__ import annotations

import time

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


def test_entities(reader: Reader) -> None:
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
