"""Snapshots: round trip, rows by id, duplicates, and damage."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from realm_core.arrays import save_array
from realm_core.corpus import work, worker
from realm_core.corpus.ingest import ingest
from realm_core.corpus.records import RawArticle, block_id
from realm_core.corpus.sharing import shared_in
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import checksum, read_json, write_json
from realm_core.runs.activity import Activity
from tests.in_memory_source import InMemorySource

ARTICLES = [
    RawArticle("a", "Ada Lovelace", "https://example.org/Ada", "Ada wrote. " * 400),
    RawArticle("w", "Wiki", "https://example.org/Wiki", "Lead.\n== Life ==\n" + "It lived. " * 400, "wikitext"),
    RawArticle("e", "Émile", "", "Un texte. Voilà 東京 😀."),
]


def snapshot(folder: Path, articles: list[RawArticle] = ARTICLES, name: str = "given") -> Snapshot:
    source = InMemorySource(articles, name=name, licence="CC0", attribution="Nobody")
    return Snapshot.open(ingest(source, name=name, output=folder, activity=Activity(quiet=True), processes=1))


def test_blocks_articles_and_rows_agree(tmp_path: Path) -> None:
    store = snapshot(tmp_path)
    assert store.articles == 3 and len(store) == store.manifest["blocks"] > 5
    seen = []
    for row in range(len(store)):
        block = store.block(row)
        article = store.article(block.article_row)
        assert block.row == row == store.row_of(block.block_id)
        assert block.text == article.text[block.start : block.end] != ""
        assert (block.title, block.url) == (article.title, article.url)
        assert block.block_id == block_id(block.title, block.text)
        assert block.section == article.section_at(block.start)
        seen.append(block)
    for article_row in range(store.articles):
        assert store.blocks_of_article(article_row) == [b for b in seen if b.article_row == article_row]
    assert store.titles_texts(1, 10**9) == ([b.title for b in seen[1:]], [b.text for b in seen[1:]])
    assert {b.section for b in store.blocks_of_article(1)[1:]} == {"Life"}
    store.verify()


def test_the_snapshots_id_is_the_hash_of_its_block_ids(tmp_path: Path) -> None:
    store = snapshot(tmp_path)
    ids = "".join(store.block(row).block_id for row in range(len(store)))
    assert store.snapshot_id == store.folder.name == hashlib.sha256(ids.encode()).hexdigest()[:16]


@pytest.mark.parametrize("unknown", ["0" * 32, "f" * 32, "", "x" * 32, "A" * 32, "0" * 31])
def test_unknown_ids_have_no_row(tmp_path: Path, unknown: str) -> None:
    assert snapshot(tmp_path).row_of(unknown) is None


def test_rows_beyond_the_last_are_refused(tmp_path: Path) -> None:
    store = snapshot(tmp_path)
    for row in (-1, len(store)):
        with pytest.raises(IndexError):
            store.block(row)
    assert store.titles_texts(len(store), len(store) + 5) == ([], [])


def test_a_sample_of_the_titles_passes_over_whole_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a corpus of more titles than are read for the spelling of questions."""
    monkeypatch.setattr(work, "_PART_ARTICLES", 1)
    monkeypatch.setattr(worker, "_BATCH_ARTICLES", 1)
    store = snapshot(tmp_path, [RawArticle(str(n), f"Title {n}", "", f"Text {n}.") for n in range(7)])
    assert list(store.titles(9)) == [f"Title {n}" for n in range(7)]
    assert list(store.titles(3)) == ["Title 0", "Title 3", "Title 6"]


def test_repeated_ids_and_blocks_are_kept_once(tmp_path: Path) -> None:
    again = RawArticle("a", "Other title", "", "Other text.")
    same_text = RawArticle("z", ARTICLES[2].title, "", ARTICLES[2].text)
    last = RawArticle("l", "Last", "", "The last one.")
    store = snapshot(tmp_path, [*ARTICLES, again, same_text, last])
    plain = snapshot(tmp_path, [*ARTICLES, last], "plain")
    ids = [[one.block(row).block_id for row in range(len(one))] for one in (store, plain)]
    assert ids[0] == ids[1] and store.snapshot_id != plain.snapshot_id
    assert [store.article(i).id for i in range(store.articles)] == ["a", "w", "e", "z", "l"]
    assert store.blocks_of_article(3) == []
    assert store.blocks_of_article(4)[0].text == "The last one."


def test_which_other_articles_have_a_block_is_known(tmp_path: Path) -> None:
    """Also of a snapshot that was made before this was kept, whose articles are packed again for it."""
    text = "A passage. " * 150
    articles = [
        RawArticle("a", "One", "", text + "Its own. " * 150),
        RawArticle("b", "Two", "", text),
        RawArticle("c", "One", "", "Before. " * 150 + "\n== A ==\n" + text + "\n== B ==\n" + text, "wikitext"),
        RawArticle("d", "One", "", text + "More. " * 150),
    ]
    store = snapshot(tmp_path, articles)
    assert store.shared_R4 is not None and store.manifest["shared"] == len(store.shared_R4) > 0
    assert {store.article(article).id for article, *_ in store.shared_R4.tolist()} <= {"c", "d"}
    for article, row, start, end in store.shared_R4.tolist():
        block, other = store.block(row), store.article(article)
        assert (block.title, block.text) == (other.title, other.text[start:end]) and block.article_row < article
    store.verify()
    older = dict(store.manifest)
    del older["shared"]
    assert np.array_equal(shared_in(Snapshot(store.folder, older)), store.shared_R4)
    damaged = np.array(store.shared_R4)
    damaged[0, 1] = len(store)
    (store.folder / "shared.npy").unlink()
    save_array(store.folder / "shared.npy", damaged)
    files = store.manifest["files"] | {"shared.npy": checksum(store.folder / "shared.npy")}
    write_json(store.folder / "manifest.json", store.manifest | {"files": files}, sealed=True)
    with pytest.raises(RealmError, match=r"shared\.npy is damaged"):
        Snapshot.open(store.folder).verify()


def test_invalid_characters_are_removed(tmp_path: Path) -> None:
    text = "A\0\u200b b\ud800.\r\n\r\n\u00a0 c\u00ad d."
    articles = [
        RawArticle("1\ud800", "T\0itle\n two" + "o" * 600, "javascript:alert(1)", text),
        RawArticle("2", "Blank", "", " \n\u200b"),
        RawArticle("3", "\u200b", "", "No title."),
    ]
    store = snapshot(tmp_path, articles)
    assert store.articles == 1
    article = store.article(0)
    assert article.text == "A b\ufffd.\nc d." and article.url == ""
    assert article.title.startswith("Title two") and len(article.title) == 512


def test_a_source_without_text_gives_no_snapshot(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="no article with text"):
        snapshot(tmp_path, [RawArticle("2", "Blank", "", " ")])
    assert list(tmp_path.glob("given/*")) == []


def test_damage_is_reported(tmp_path: Path) -> None:
    folder = snapshot(tmp_path).folder
    for name in ("articles.arrow", "blocks.arrow", "block_rows.npy", "manifest.json"):
        broken = tmp_path / name.replace(".", "-")
        shutil.copytree(folder, broken)
        content = (broken / name).read_bytes()
        (broken / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(RealmError, match=name):
            Snapshot.open(broken)
    changed = tmp_path / "changed"
    shutil.copytree(folder, changed)
    content = bytearray((changed / "articles.arrow").read_bytes())
    content[content.index(b"Ada wrote")] = ord("O")
    (changed / "articles.arrow").write_bytes(content)
    with pytest.raises(RealmError, match="checksum"):
        Snapshot.open(changed).verify()


def test_another_format_is_refused(tmp_path: Path) -> None:
    folder = snapshot(tmp_path).folder
    manifest = read_json(folder / "manifest.json")
    (folder / "manifest.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(RealmError, match="format"):
        Snapshot.open(folder)
    with pytest.raises(RealmError, match=r"manifest\.json does not exist"):
        Snapshot.open(tmp_path / "nowhere")
