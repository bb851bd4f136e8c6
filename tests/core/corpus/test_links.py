"""Positions of wiki-link anchors in prose, blocks and snapshots; recording them changes no text."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm_core.corpus.ingest import ingest
from realm_core.corpus.mediawiki import MediaWikiSource
from realm_core.corpus.records import RawArticle
from realm_core.corpus.store import Snapshot
from realm_core.corpus.wikitext import to_prose
from realm_core.corpus.worker import prepare, to_request
from realm_core.errors import RealmError
from realm_core.runs.activity import Activity
from tests.core.corpus.dumps import dump, page
from tests.in_memory_source import InMemorySource
from tests.nightly import examples


def shown(wikitext: str, language: str = "en") -> str:
    """The prose with its anchors between ⟦ and ⟧."""
    text, _, links = to_prose(wikitext, language)
    for start, end in reversed(links):
        text = f"{text[:start]}⟦{text[start:end]}⟧{text[end:]}"
    return text


# ── In the prose of an article ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("Ada of [[London]] was a [[Countess (title)|countess]].", "Ada of ⟦London⟧ was a ⟦countess⟧."),
        ("[[bus]]es, [[bus|coach]]es, [[Bus]]Es, [[bus]]-like, [[bus]] es",
         "⟦buses⟧, ⟦coaches⟧, ⟦Bus⟧Es, ⟦bus⟧-like, ⟦bus⟧ es"),
        ("[[Paris (Texas)|]], [[Seoul, South Korea|]], [[a_b#c]], [[#Later life]]",
         "⟦Paris⟧, ⟦Seoul⟧, ⟦a b⟧, ⟦Later life⟧"),
        ("[[wikt:tree]] and [[Star Wars: Episode IV]]", "⟦tree⟧ and ⟦Star Wars: Episode IV⟧"),
        ("[[One]][[Two]]th [[Three]]", "⟦One⟧⟦Twoth⟧ ⟦Three⟧"),
        # Bold and italics, around, inside and across
        ("'''[[Ada]]''' and ''[[Bob]]''s and '''''[[Eve]]'''''", "⟦Ada⟧ and ⟦Bob⟧s and ⟦Eve⟧"),
        ("[[Ada|'''Ada''']] and [[Bob|''Bob'' the '''B''']] and [[C|'''C'''d]]e", "⟦Ada⟧ and ⟦Bob the B⟧ and ⟦Cde⟧"),
        ("'''Ada [[Lovelace''' the|first]]'s", "Ada ⟦first⟧'s"),
        ("[[Moby-Dick|''Moby-Dick'']]s and [[O'Brien]]'s [[a|''x]]''", "⟦Moby-Dicks⟧ and ⟦O'Brien⟧'s ⟦x⟧"),
        # White space, entities, and what vanishes beside or inside an anchor
        ("a [[  London  ]] b [[L| London ]] c [[L|&nbsp;London&nbsp;]]s", "a ⟦London⟧ b ⟦London⟧ c ⟦London s⟧"),
        ("[[AT&amp;T]] and [[R&D|R&amp;D]] &lt; [[A&ndash;B]]", "⟦AT&T⟧ and ⟦R&D⟧ < ⟦A–B⟧"),
        ("''a''  b&nbsp; [[c|''c''  d]] e[[f|&nbsp; f ]] g", "a b ⟦c d⟧ e ⟦f⟧ g"),
        ("A{{efn|x}} [[b<ref>c</ref>|b<ref>c</ref>]]<ref>[[d]]</ref> ([[e]]; {{x}}) f ( ; [[g]])",
         "A ⟦b⟧ (⟦e⟧) f (⟦g⟧)"),
        ("[[a|<span>a</span><br>b]] <small>[[c]]</small> <nowiki>[[d]]</nowiki>", "⟦a b⟧ ⟦c⟧ [[d]]"),
        ("[[a| ]] [[b|{{x}}]] [[c|''''']] d [[]] [[|]] [[e]]", "⟦a⟧ ⟦b⟧ d ⟦e⟧"),
        # Nested
        ("{{nowrap|[[Ada|A.]]s {{lang|fr|le [[fromage]]}}}}", "⟦A.s⟧ le ⟦fromage⟧"),
        ("{{convert|12|km}} of [[rail|{{nowrap|old rail}}]] {{sort|x|[[Ada]]}}", "12 km of ⟦old rail⟧ ⟦Ada⟧"),
        ("{{Infobox|a=[[b]]}} {{convert|[[5]]|km}} {{ubl|[[a]]|b|[[c]]}}", "A: ⟦b⟧.\n5 km ⟦a⟧, b, ⟦c⟧"),
        ("[[outer|an [[inner]] link]] [[Ada]]", "an ⟦inner⟧ link ⟦Ada⟧"),
        ("[http://a.b the [[site]]] and [//c d [[e]] of the site] of [[Ada]]",
         "the ⟦site⟧ and d ⟦e⟧ of the site of ⟦Ada⟧"),
        # No links to articles, or none that are read
        ("A[[File:x.jpg|thumb|Of [[Ada]]s]] b [[Image:y.png]]c [[Bild:Ada|z]].", "A b c."),
        ("See [[:Category:Trees]] and [[:Category:Oaks|oaks]]. [[Category:Trees]]\n[[fr:Arbre]]",
         "See Category:Trees and oaks."),
        ("Ada.\n== See also ==\n* [[Bob]]\n== Life ==\n* [[Eve]]\n:''See [[Eve (x)]].''\n| [[cell]]", "Ada.\n⟦Eve⟧."),
        ("{|\n| [[cell]]\n|}\n=== [[Heading]] ===\n# [[Item]]\nEnd of [[it]].", "⟦Item⟧.\nEnd of ⟦it⟧."),
        # Broken
        ("[[Ada was [[Bob]]. [[Eve", "Ada was ⟦Bob⟧. Eve"),
        ("[[Ada\nwas]] at [[home]]", "Ada was at ⟦home⟧"),
        ("x\ufdd0y\ufdd1 [[Ada]] &#xFDD0;z&#xFDD1; [[Bob]]", "xy ⟦Ada⟧ z ⟦Bob⟧"),
        ("] [[Ada]]] }} Bob]] ]", "] ⟦Ada⟧] Bob ]"),
    ],
)  # fmt: skip
def test_anchors(wikitext: str, expected: str) -> None:
    assert shown(wikitext) == expected


def test_letters_of_other_languages_belong_to_an_anchor() -> None:
    assert shown("Les [[lycée]]s, [[père|pèr]]es, [[cité]]é", "fr") == "Les ⟦lycées⟧, ⟦pères⟧, ⟦citéé⟧"
    assert shown("[[Москва|москв]]ой, [[北京]]是, [[x]]ś") == "⟦москвой⟧, ⟦北京⟧是, ⟦xś⟧"


# ── Against the source's own text ───────────────────────────────────────────────────────────────────────────────────

# A link as it stands in simple wikitext: no nesting, no namespaces.
_LINK = re.compile(r"\[\[(?:[^|\]]*\|)?([^|\]]+)\]\]([a-z]*)")


def anchors_in(wikitext: str) -> list[str]:
    """The text of each link, by one expression."""
    return [" ".join((words + trail).replace("'''", "").split()) for words, trail in _LINK.findall(wikitext)]


words = st.sampled_from("Ada wrote notes about engines in 1843 while naïve 東京 don't (née Byron) x²".split())
links = st.builds(
    "{}[[{}{}{}]]{}{}".format,
    st.sampled_from(["", "'''", "''"]),
    st.sampled_from(["", "Target|", "A, B (c)#d|"]),
    st.sampled_from(["", " ", "'''"]),
    st.lists(words, min_size=1, max_size=4).map(" ".join).filter(lambda name: not name.startswith("'")),
    st.sampled_from(["", "s", "ish ", "-s", "'''", "''s"]),
    st.sampled_from(["", " ", "\n", "&nbsp;", "{{x|[[no]]}}", "<ref>[[no]]</ref>", " [[File:a.png|[[no]]]] "]),
)
sentences = st.lists(words | links, min_size=1, max_size=20).map(lambda parts: " ".join(parts) + ". ")
articles = st.lists(sentences | st.sampled_from(["\n\n", "\n== Part ==\n", "\n* ", "{{Box|[[no]]}}"]), max_size=60)


@settings(max_examples=examples(60))
@given(articles.map("".join))
def test_each_link_of_a_block_has_the_text_of_its_source(wikitext: str) -> None:
    """Sentences are too short to be split, so no link is lost."""
    _, blocks = (pa.ipc.open_stream(table).read_next_batch() for table in prepare(to_request([_article(wikitext)])))
    found = [text[start:end] for text, places in _blocks(wikitext, blocks) for start, end in places]
    hidden = re.compile(r"\{\{.*?\}\}|<ref>.*?</ref>|\[\[File:.*?\]\]\]\]")
    assert found == anchors_in(hidden.sub("", wikitext))


@settings(max_examples=examples(60))
@given(articles.map("".join))
def test_text_is_the_same_without_the_brackets_of_links(wikitext: str) -> None:
    hidden = re.compile(r"\[\[File:.*?\]\]\]\]")
    without = re.sub(r"\[\[(?:[^|\]]*\|)?([^|\]]+)\]\]", r"\1", hidden.sub("", wikitext))
    assert to_prose(wikitext)[0] == to_prose(without)[0] and not to_prose(without)[2]


def _article(wikitext: str) -> RawArticle:
    return RawArticle("1", "T", "", wikitext, "wikitext")


def _blocks(wikitext: str, blocks: pa.RecordBatch) -> list[tuple[str, list[list[int]]]]:
    """Text and links of each block."""
    text = to_prose(wikitext)[0]
    rows = blocks.to_pylist()
    return [(text[row["start"] : row["end"]], np.reshape(row["links"], (-1, 2)).astype(int).tolist()) for row in rows]


# ── In blocks and snapshots ─────────────────────────────────────────────────────────────────────────────────────────


def snapshot(folder: Path, *pages: str, name: str = "wiki", processes: int = 1) -> Snapshot:
    folder.mkdir(exist_ok=True)
    (folder / "dump.xml").write_bytes(dump(*pages))
    source = MediaWikiSource(folder / "dump.xml")
    path = ingest(source, name=name, output=folder, activity=Activity(quiet=True), processes=processes)
    return Snapshot.open(path)


def read(store: Snapshot) -> list[list[str]]:
    """The texts of the links of each block."""
    return [[store.block(row).text[slice(*place)] for place in store.links(row)] for row in range(len(store))]


def test_a_link_that_two_blocks_share_is_no_link(tmp_path: Path) -> None:
    """One sentence of 1,200 words with a link per three words is split between words at the end of each block."""
    triples = [f"w{n}a w{n}b w{n}c" for n in range(400)]
    store = snapshot(tmp_path, page("Long", " ".join(f"[[{triple}]]" for triple in triples)))
    texts = [store.block(row).text for row in range(len(store))]
    assert read(store) == [[triple for triple in triples if triple in text] for text in texts]
    assert sum(map(len, read(store))) < 400 and " ".join(texts) == " ".join(triples)


PAGES = [
    page("Ada", "Ada of [[London]] wrote [[note]]s. " + "She [[write|wrote]] and wrote on and on. " * 80, number=1),
    page("Bare", "Nothing here is a link.", number=2),
    page("Same", "The [[same]] text.", number=3),
    page("Same", "The same [[text]].", number=4),
    page("Twice", "An id [[again]].", number=3),
    page("Eve", "Eve of [[Paris, Texas|Paris]]. [[Category:People]]", number=5),
]


def test_links_follow_their_blocks_into_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realm_core.corpus.work._PART_ARTICLES", 2)
    monkeypatch.setattr("realm_core.corpus.worker._BATCH_ARTICLES", 1)
    store = snapshot(tmp_path, *PAGES)
    found = read(store)
    assert len(found) == len(store) > 4 and store.has_links
    assert found[0][:3] == ["London", "notes", "wrote"]
    assert list(chain(*found[:-3])) == ["London", "notes", *["wrote"] * 80]
    assert found[-3:] == [[], ["same"], ["Paris"]]  # the page "Same" comes once, the id 3 too
    assert store.manifest["links"] == sum(map(len, found)) == 84
    assert not [
        path.name for path in store.folder.iterdir() if path.name not in (*store.manifest["files"], "manifest.json")
    ]
    store.verify()
    other = snapshot(tmp_path / "other", *PAGES, processes=2)
    assert other.manifest["files"] == store.manifest["files"]


def test_a_snapshot_without_links_has_none(tmp_path: Path) -> None:
    plain = [RawArticle("1", "Ada", "", "Ada of [[London]] wrote.")]
    source = InMemorySource(plain, name="g")
    path = ingest(source, name="g", output=tmp_path, activity=Activity(quiet=True), processes=1)
    for store in (Snapshot.open(path), snapshot(tmp_path, page("Bare", "Nothing here is a link."))):
        assert not store.has_links and store.links(0) == []
        assert "links" not in store.manifest and not (store.folder / "links.npy").exists()
        assert sorted(store.manifest["files"]) == [
            "articles.arrow",
            "block_prefixes.npy",
            "block_rows.npy",
            "blocks.arrow",
        ]


def test_links_do_not_change_the_snapshot_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    linked = snapshot(tmp_path, page("Ada", "Ada of [[London]] wrote."))
    plain = InMemorySource([RawArticle("1", "Ada", "", "Ada of London wrote.")], name="g")
    activity = Activity()
    path = ingest(plain, name="plain", output=tmp_path, activity=activity, processes=1)
    assert path.name == linked.snapshot_id
    for file in ("blocks.arrow", "block_rows.npy", "block_prefixes.npy"):
        assert Snapshot.open(path).manifest["files"][file] == linked.manifest["files"][file]
    source = MediaWikiSource(tmp_path / "dump.xml")
    assert ingest(source, name="plain", output=tmp_path, activity=activity, processes=1) == path
    assert f"{path} was made without links; ingest under another name" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["cut", "gone", "shape"])
def test_damaged_links_are_reported(tmp_path: Path, damage: str) -> None:
    folder = snapshot(tmp_path, *PAGES).folder
    path = folder / "links.npy"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "gone":
        path.unlink()
    else:
        np.save(path, np.load(path, allow_pickle=False)[:5], allow_pickle=False)
    with pytest.raises(RealmError, match=r"links\.npy (is missing or damaged|does not contain the 84 rows)"):
        Snapshot.open(folder)
