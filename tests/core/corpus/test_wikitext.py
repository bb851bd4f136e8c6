"""Wikitext → prose, case by case, and broken or hostile markup."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm_core.corpus.wikitext import to_prose
from tests.nightly import NIGHTLY


def prose(wikitext: str, language: str = "en") -> str:
    return to_prose(wikitext, language)[0]


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("'''Ada''' was ''a [[Countess|countess]]'' in [[London]].", "Ada was a countess in London."),
        ("[[bus]]es in [[Paris (Texas)|]] and [[Seoul, South Korea|]].", "buses in Paris and Seoul."),
        ("See [[:Category:Trees]] and [[wikt:tree]] and [[s:Tree|source]].", "See Category:Trees and tree and source."),
        ("A[[File:x.jpg|thumb|A [[caption]] with [http://a.b link]]] b.", "A b."),
        ("Text.[[Category:Trees]]\n[[fr:Arbre]]\n[[de:Baum]]", "Text."),
        ("A fact.<ref name=a>Source {{cite book|title=X}}</ref> Another.<ref name=a/> End.", "A fact. Another. End."),
        ("Left <ref>open. Then <ref>closed</ref> goes on.", "Left open. Then goes on."),
        ("Before <!-- hidden [[ {{ --> after.", "Before after."),
        ("{{Infobox person\n| name = Ada {{nowrap|L.}}\n| born = {{birth date|1815|12|10}}\n}}\nAda wrote.",
         "Born: December 10, 1815.\nAda wrote."),
        ("Text.\n{| class=wikitable\n! a\n|-\n| b || {{convert|1|km}}\n{|\n| inner\n|}\n|}\nMore.", "Text.\nMore."),
        ("It is {{convert|12|km|mi}} long and {{convert|5|to|7|ft|m}} deep.", "It is 12 km long and 5 to 7 feet deep."),
        ("He is {{convert|5|ft|11|in|cm}} tall; {{cvt|3|-|4|kg|lb}}.", "He is 5 feet 11 inches tall; 3–4 kg."),
        ("The {{lang|fr|fromage}} ({{lang-de|Käse}}; {{langx|la|caseus}}).",
         "The fromage (German: Käse; Latin: caseus)."),
        ("Born {{birth date|1815|12|10|df=y}}, died {{death date and age|1852|11|27|1815|12|10}}.",
         "Born 10 December 1815, died November 27, 1852."),
        ("{{As of|2010|5}}, {{circa|1200}}, {{frac|2|1|2}}, {{val|1.5|e=6|u=m}}.",
         "As of May 2010, c. 1200, 2 1/2, 1.5×10^6 m."),
        ("Ada ({{IPAc-en|eɪ|d|ə}}; born 1815) and '''Bob''' ({{IPA-fr|x}}) met.", "Ada (born 1815) and Bob met."),
        ("The vowel {{IPA|/a/}} and {{IPAslink|e}}.", "The vowel /a/ and /e/."),
        ("Claim.{{citation needed|date=May 2010}} {{Main|Other}} Next{{efn|A note}}.", "Claim. Next."),
        ("The {{HMS|Beagle}} and {{USS|Enterprise|CV-6}} and {{ship|SS|Great Britain||2}}.",
         "The HMS Beagle and USS Enterprise (CV-6) and SS Great Britain."),
        ("Let <math>x</math> be <math>\\frac{1}{\\alpha}</math>, H<sub>2</sub>O.", "Let x be, H2O."),
        ("Use <code>print</code>.<gallery>\nFile:a.jpg|b\n</gallery>", "Use print."),
        ("A<br>b&nbsp;c &amp; d &lt;ref&gt; <nowiki>[[raw]] ''x''</nowiki> e", "A b c & d <ref> [[raw]] ''x'' e"),
        ("Go to [http://a.b/c the site] or [http://d.e] or https://f.g/h?i=j.", "Go to the site or or."),
        ("* One\n* Two is [[here]].\n# Three\n: Four\n; Term: meaning",
         "One.\nTwo is here.\nThree.\nFour.\nTerm: meaning."),
        (":''For other uses, see [[Ada (disambiguation)]].''\nAda wrote.", "Ada wrote."),
        ("__NOTOC__ Line one\nline two.\n\nNew paragraph.", "Line one line two.\nNew paragraph."),
        ("5 < 6 and 7 > 3, {{{parameter|}}} end.", "5 < 6 and 7 > 3, end."),
        ("{{formatnum:1234567}} people; {{lc:ABC}}; {{#if:x|y}}", "1234567 people; ABC;"),
        ("{{ill|de|Ulm}}, {{ill|Gotha|de}}; {{marriage|Jo|1990|2000}}, {{marriage|Al|()=small}}, {{height|m=1.85}}",
         "Ulm, Gotha; Jo (1990–2000), Al, 1.85 m"),
        ("{{longitem|line-height:1em|Long}} {{resize|120%|big}} {{native name|fr|Suisse}} {{based on|E.R.|Jo Bo}}",
         "Long big Suisse E.R. by Jo Bo"),
        ("A {{em dash}} b{{snd}}c{{'s}}", "A — b – c's"),
    ],
)  # fmt: skip
def test_prose(wikitext: str, expected: str) -> None:
    assert prose(wikitext) == expected


def test_french_and_spanish_templates() -> None:
    assert prose("Le {{date|14|juillet|1789}}, au {{s|XVIII|e}}, {{unité|12|km|2}} ; {{1er|janvier}}.", "fr") == (
        "Le 14 juillet 1789, au XVIIIe siècle, 12 km² ; 1er janvier."
    )
    assert prose("Nació el {{fecha|10|12|1815}} en el {{siglo|XIX||s}}; {{unidad|12|km}}.", "es").endswith(
        "en el siglo XIX; 12 km."
    )


def test_sections_start_where_their_prose_starts() -> None:
    text, sections, _ = to_prose(
        "Lead.\n== History ==\n=== Early ''years'' ===\nOld.\n===Late===\nNew.\n== Empty ==\n{{x}}\n"
        "== References ==\nNot this.\n=== Books ===\nNor this.\n== Legacy ==\nStill read."
    )
    assert text == "Lead.\nOld.\nNew.\nStill read."
    assert [(s.heading, text[s.start :].split("\n")[0]) for s in sections] == [
        ("History › Early years", "Old."),
        ("History › Late", "New."),
        ("Legacy", "Still read."),
    ]


@pytest.mark.parametrize(
    ("broken", "kept"),
    [
        ("{{Infobox\n| a = b\nAda was a countess.", "Ada was a countess."),
        ("Ada [[was a countess.", "Ada was a countess."),
        ("{|\n| cell\nAda was a countess.", "Ada was a countess."),
        ("Ada was]] a}} countess.|}", "Ada was a countess."),
        ("'''''Ada'' was a countess.", "Ada was a countess."),
        ("<div>Ada <span class=>was</b> a countess.", "Ada was a countess."),
    ],
)
def test_unbalanced_markup_costs_no_prose(broken: str, kept: str) -> None:
    assert kept in prose(broken)


@given(st.lists(st.sampled_from(
    ["{{", "}}", "[[", "]]", "{|", "|}", "|", "\n", "==", "''", "'''", "<ref>", "</ref>", "<ref/>", "<!--", "-->", "*",
     "a", " ", "<nowiki>", "</nowiki>", "File:", "convert|1|km", "lang|fr|x", "http://a.b", "[", "]", "=", ":",
     "{{Infobox|a=b|", "{|\n! a !! b\n|-\n| c || d\n", "\n|-\n|", "\n!", "||", "{{nowrap|", "\ufdd2",
     "&nbsp;", "<", ">", "("]
), max_size=60).map("".join))  # fmt: skip
def test_no_markup_raises_or_leaves_brackets(wikitext: str) -> None:
    text, sections, links = to_prose(wikitext)
    assert text == text.strip() and "\n\n" not in text and "\ufdd2" not in text
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in links)
    assert all(end <= start for (_, end), (start, _) in pairwise(links))
    if "nowiki" not in wikitext:
        assert "{{" not in text and "]]" not in text
    assert all(0 <= section.start < len(text) and not text[section.start].isspace() for section in sections)


@pytest.mark.parametrize(
    "unit",
    ["{{", "[[", "{|\n", "{{a|", "[[a|", "<ref>", "<nowiki>", "<math>", "<!--", "==", "== a ==\n", "'''", "[http://a ",
     "&", "<", "(", ", ", "}}", "]]", "[[a]]", "{{small|", "\n*", ":'' ", "http://", "{{convert|1|", "=" * 9 + " \n",
     " "],
)  # fmt: skip
def test_hostile_markup_takes_linear_time(unit: str) -> None:
    length = 150_000 if NIGHTLY else 50_000
    wikitext = unit * (length // len(unit))
    started = time.process_time()  # other work on the machine does not count
    to_prose(wikitext)
    to_prose(wikitext + "}}" * (length // 8) + "]]" * (length // 8) + "</ref>")
    assert time.process_time() - started < 10 * length / 150_000
