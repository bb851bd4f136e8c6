"""Entries of WordNet: which are taken, how they are called, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm_core.corpus import wordnet
from realm_core.corpus.cleaning import article_of
from realm_core.corpus.default import DefaultSource
from realm_core.corpus.wordnet import ADDRESS, WordnetSource
from realm_core.errors import RealmError


@pytest.fixture(scope="module")
def entries() -> dict[str, str]:
    cleaned = (article_of(raw) for raw in WordnetSource({"William Shakespeare"}).articles(0))
    return {one[0].title: one[0].text for one in cleaned if one is not None}


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Salzburg", "Salzburg: city in western Austria; a music center and birthplace of Mozart."),
        (
            "Stan Laurel",
            "Stan Laurel, also called Laurel or Arthur Stanley Jefferson Laurel: United States slapstick comedian "
            "(born in England) who played the scatterbrained and often tearful member of the Laurel and Hardy duo who "
            "made many films. Stan Laurel was born in 1890 and died in 1965.",
        ),
        (
            "Plato",
            "Plato: ancient Athenian philosopher; pupil of Socrates; teacher of Aristotle. "
            "Plato was born in 428 BC and died in 347 BC.",
        ),
        ("Chosen", "Chosen: the name for Korea as a Japanese province (1910-1945)."),
        ("Lech Walesa", "Lech Walesa, also called Walesa: Polish labor leader and statesman. It was born in 1943."),
    ],
)
def test_definitions_name_what_they_define(entries: dict[str, str], title: str, text: str) -> None:
    assert entries[title] == text.replace("It was", "Lech Walesa was")


def test_a_preferred_title_is_taken(entries: dict[str, str]) -> None:
    assert entries["William Shakespeare"].startswith(
        "William Shakespeare, also called Shakespeare, Shakspere, William Shakspere or"
    )


def test_kinds_of_things_are_left_out(entries: dict[str, str]) -> None:
    assert "skin" not in entries and not any(text.startswith("river:") for text in entries.values())


def test_each_has_its_own_id_and_address() -> None:
    articles = list(WordnetSource().articles(0))
    assert len({article.id for article in articles}) == len(articles) == 7730
    assert all(article.url.startswith(ADDRESS) and article.text.strip() for article in articles)
    assert list(WordnetSource().articles(7728)) == articles[7728:]


def test_a_damaged_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("data.noun1", "data.noun2"):
        (tmp_path / name).write_text("00001740 03 n zz entity | that which\n")
    monkeypatch.setattr(wordnet, "package_path", lambda *_: tmp_path)
    with pytest.raises(RealmError, match=r"data\.noun is damaged: '00001740 03 n zz entity"):
        list(WordnetSource().articles(0))


def test_the_default_source_has_them_beside_its_articles() -> None:
    source = DefaultSource()
    first, second = ([article.title for article in source.articles(start)] for start in (0, 10_285))
    assert len(first) == 18_015 and first[10_285:] == second and "Wolfgang Amadeus Mozart" in second
    assert [part.licence for part in source.rights] == ["public domain", "WordNet 3.0 license"]
