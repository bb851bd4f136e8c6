"""Entries of WordNet: which are taken, how they are called, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm_core.corpus import wordnet
from realm_core.corpus.cleaning import article_of
from realm_core.corpus.wordnet import ADDRESS, WordnetSource
from realm_core.errors import RealmError


@pytest.fixture(scope="module")
def entries() -> list[str]:
    cleaned = (article_of(raw) for raw in WordnetSource({"William Shakespeare", "Pride"}).articles(0))
    return [one[0].text for one in cleaned if one is not None]


@pytest.mark.parametrize(
    "text",
    [
        "Salzburg: city in western Austria; a music center and birthplace of Mozart.",
        (
            "Stan Laurel, also called Laurel or Arthur Stanley Jefferson Laurel: United States slapstick comedian "
            "(born in England) who played the scatterbrained and often tearful member of the Laurel and Hardy duo who "
            "made many films. Stan Laurel was born in 1890 and died in 1965."
        ),
        (
            "Plato: ancient Athenian philosopher; pupil of Socrates; teacher of Aristotle. "
            "Plato was born in 428 BC and died in 347 BC."
        ),
        "Chosen: the name for Korea as a Japanese province (1910-1945).",
        "Cygnet: a young swan.",
        (
            "Femur, also called thighbone or femoris: the longest and thickest bone of the human skeleton; extends "
            "from the pelvis to the knee."
        ),
        "Lech Walesa, also called Walesa: Polish labor leader and statesman. Lech Walesa was born in 1943.",
    ],
)
def test_definitions_name_what_they_define(entries: list[str], text: str) -> None:
    assert text in entries


def test_a_preferred_title_is_taken(entries: list[str]) -> None:
    title = "William Shakespeare, also called Shakespeare, Shakspere, William Shakspere or"
    assert any(entry.startswith(title) for entry in entries)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Furlong: a unit of length equal to 220 yards.", "a number"),
        ("Femur, also called thighbone or femoris: the longest and", "a rank"),
        ("Pride, also called pridefulness: a feeling of self-respect", "an article's title"),
        ("Cygnet: a young swan.", "an animal that English has a word for"),
        ("Kid: young goat.", "an animal, in a frequent word's fifth sense"),
        ("Foal: a young horse.", "an animal of which there are kinds"),
        ("Arachnophobia: a morbid fear of spiders.", "a state, in a word's first sense"),
        ("Cooper, also called barrel maker: a craftsman who makes", "a person, in a frequent word's fourth sense"),
        ("Meteorologist: a specialist who studies processes", "a class of persons, by a frequent word"),
        ("Palindrome: a word or phrase that reads the same", "communication"),
        ("Ounce, also called troy ounce or apothecaries' ounce:", "a quantity"),
    ],
)
def test_nouns_are_taken_whose_definitions_answer_questions(entries: list[str], text: str, why: str) -> None:
    assert any(entry.startswith(text) for entry in entries), why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Bottom-feeder: a scavenger that feeds low", "it is no word of the list of English words"),
        ("Puppy: an inexperienced young person", "it is a person in a rare word's second sense"),
        ("Wire-haired fox terrier", "it is several words"),
        ("Self-pity: a feeling of sorrow", "it is a feeling"),
        ("Reception: the act of receiving", "it is an act"),
        ("Disputant, also called controversialist or eristic", "it is a class of persons, by rare words"),
    ],
)
def test_other_nouns_are_left_out(entries: list[str], text: str, why: str) -> None:
    assert not any(entry.startswith(text) for entry in entries), why


def test_each_has_its_own_id_and_address() -> None:
    articles = list(WordnetSource().articles(0))
    assert len({article.id for article in articles}) == len(articles) == 38_645
    assert all(article.url.startswith(ADDRESS) and article.text.strip() for article in articles)
    assert list(WordnetSource().articles(38_643)) == articles[38_643:]


def test_a_damaged_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"data.noun1": "00001740 03 n zz entity | that which\n", "data.noun2": "", "index.noun": ""}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(wordnet, "package_path", lambda *_: tmp_path)
    with pytest.raises(RealmError, match=r"data\.noun is damaged: '00001740 03 n zz entity"):
        list(WordnetSource().articles(0))
