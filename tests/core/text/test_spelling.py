"""Misspelt questions are read as what is nearest; names that are typed right, and other languages, stay."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm_core.text.folding import folded
from realm_core.text.spelling import MOST_READINGS, Lexicon, QuestionReading, Spelling, chosen

TITLES = ["Frankenstein", "Wolfgang Amadeus Mozart", "Sagrada Família", "Tokhtamysh", "Curie family", "Zanzibar"]


@dataclass
class Passage:
    text: str = ""
    title: str = ""


@pytest.fixture(scope="module")
def spelling() -> Spelling:
    return Spelling([Lexicon.of_titles(TITLES)])


def texts(spelling: Spelling, question: str) -> list[str]:
    return [reading.text for reading in spelling.readings(question)]


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        ("author of frankinstein", "author of frankenstein"),  # of a title
        ("longest rivr in europe", "longest river in europe"),  # a letter that is missing
        ("who invented dinamite", "who invented dynamite"),  # another letter
        ("capital of morroco", "capital of morocco"),  # two errors in a longer word
        ("capital of egpyt", "capital of egypt"),  # neighbours exchanged
        ("who wrote war and peice", "who wrote war and peace"),
        ("penicilin discoverd by", "penicillin discovered by"),  # most of the words
        ("biggest city kazakstan", "biggest city kazakhstan"),
        ("Who wrote Frankinstein?", "Who wrote frankenstein?"),  # a name with one error
        ("WHO INVENTED DINAMITE", "WHO INVENTED dynamite"),
    ],
)
def test_a_misspelt_word_is_read_as_the_nearest(spelling: Spelling, question: str, meant: str) -> None:
    first, *others = texts(spelling, question)
    assert first == question and meant in others


@pytest.mark.parametrize(
    "question",
    [
        "Who wrote Frankenstein?",
        "sagrada familia architect",  # accents are no error
        "sagrada família architect",
        "when was tokhtamysh khan",
        "what is the nicest postcode",  # English, though the titles have none of it
        "favourite colour of my neighbour",  # British
        "What is the capital of Tarvania?",  # a name with two errors may well be another one
        "who is Zanzabor",
        "Who stabbed Monica Seles?",  # a name is not read as an English word (sees, sales)
        "pi to 5 dp",  # too short to say
        "Quelle est la capitale de la Mongolie ?",
        "quien escribio la novela mas famosa de cervantes",
        "flurb wizzet gronk dreckle smoof",
        "",
    ],
)
def test_what_is_no_error_stays(spelling: Spelling, question: str) -> None:
    assert texts(spelling, question) == [question]


def test_a_question_has_few_readings(spelling: Spelling) -> None:
    found = texts(spelling, "wich litle compser mad the higest musik of al in austra then")
    assert 2 < len(found) == len(set(found)) <= MOST_READINGS


@given(st.text(max_size=80))
def test_whatever_is_typed_comes_first(question: str) -> None:
    first, *others = Spelling([Lexicon.of_titles(TITLES)]).readings(question)
    assert first == QuestionReading(question) and all(other.text != question for other in others)


def test_words_of_titles_are_told_apart(spelling: Spelling) -> None:
    _, reading, *_ = spelling.readings("tokhtamish khan")
    assert reading.text == "tokhtamysh khan" and reading.replaced == {"tokhtamish": "tokhtamysh"}
    assert reading.needed == {"tokhtamysh"}
    assert not any(one.needed for one in spelling.readings("longest rivr"))


def test_likelier_corrections_are_worth_more(spelling: Spelling) -> None:
    def worth(question: str, meant: str, by: Spelling = spelling) -> float:
        return next(reading.worth for reading in by.readings(question) if reading.text == meant)

    assert worth("the rivr", "the river") > worth("the rivr", "the rive")  # a frequent word
    assert worth("which counry", "which country") > worth("which counry", "which county")  # a letter left out
    assert worth("who discovred it", "who discovered it") > worth("the rivr", "the river")  # a long word
    made_up = Spelling([Lexicon.of_titles(["Brandelkorvus", "Dorvik"])])  # each once, and an error of one kind
    assert worth("brandelkurvus", "brandelkorvus", made_up) > worth("durvik", "dorvik", made_up)
    first, *others = [reading.worth for reading in spelling.readings("rivr of nepoleon")]
    assert first == 0 and others == sorted(others, reverse=True)


def test_of_two_misspelt_words_one_may_stay(spelling: Spelling) -> None:
    found = texts(spelling, "zanzibarr rivr")
    assert {"zanzibar river", "zanzibarr river", "zanzibar rivr"} <= set(found)


def test_a_title_is_read_as_its_plural(spelling: Spelling) -> None:
    assert "wild tokhtamyshs" in texts(spelling, "wild tokhtamyshhs")
    readings, near = (
        [QuestionReading("a"), QuestionReading("b", {"x": "falcons"}, frozenset(["falcons"]))],
        Passage(title="Falcon"),
    )
    assert chosen(readings, [(5.0, Passage()), (8.0, near)], []) == 1


def test_the_retriever_decides() -> None:
    def read(worth: float) -> list[QuestionReading]:
        changed = [QuestionReading(text, {"tyqed": text}, worth=worth) for text in ("a", "b")]
        return [QuestionReading("as typed"), *changed]

    other = Passage("Something.")
    assert chosen(read(-1.0), [(5.0, other), (7.0, other), (8.0, other)], [other]) == 2
    assert chosen(read(-1.0), [(7.0, other), (6.0, other), (7.5, other)], [other]) == 0  # hardly nearer
    assert chosen(read(1.0), [(7.0, other), (6.0, other), (6.5, other)], [other]) == 2  # a likely error
    assert chosen(read(0.0), [None, (-1.0, other), None], []) == 1
    assert chosen(read(0.0), [None, None, None], []) == 0


def test_a_word_that_as_many_near_blocks_have_is_not_misspelt() -> None:
    readings, nearest = (
        [QuestionReading("monomer"), QuestionReading("monster", {"monomer": "monster"})],
        [(5.0, Passage()), (8.0, Passage())],
    )
    assert chosen(readings, nearest, [Passage(), Passage("Its Monomer is propylene.")]) == 0
    assert chosen(readings, nearest, [Passage("A monster."), Passage("Its Monomer is propylene.")]) == 0
    assert chosen(readings, nearest, [Passage(), Passage("Its monomers.")]) == 1
    etymology = [Passage("An engine, from Old French engin."), Passage("A steam engine.")]
    readings[1] = QuestionReading("steam engine", {"engin": "engine"})
    assert chosen(readings, nearest, etymology) == 1


def test_the_word_of_a_title_is_read_only_where_it_stands() -> None:
    """Otherwise questions would tell what documents there are that the asker may not see."""
    readings = [QuestionReading("falkon"), QuestionReading("falcon", {"falkon": "falcon"}, frozenset(["falcon"]))]
    assert chosen(readings, [(5.0, Passage()), (8.0, Passage("Nothing of it."))], [Passage()]) == 0
    assert chosen(readings, [(5.0, Passage()), (8.0, Passage(title="Project Falcon"))], [Passage()]) == 1


def test_a_year_is_a_title_only_where_an_article_writes_it_out(spelling: Spelling) -> None:
    _, novel = spelling.readings("Who wrote 1984?")
    assert (novel.text, novel.worth) == ("Who wrote nineteen eighty-four?", 0.0)
    nearest = [(9.9, Passage()), (13.7, Passage(title="Nineteen Eighty-Four"))]
    assert chosen([QuestionReading("Who wrote 1984?"), novel], nearest, [Passage("In 1984.")]) == 1
    nearest[1] = (13.7, Passage("Written in 1984."))
    assert chosen([QuestionReading("Who wrote 1984?"), novel], nearest, []) == 0


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("when did ww2 end", ["when did World War II end"]),
        ("WWI deaths", ["World War I deaths"]),
        ("who won world war 2", ["who won World War II"]),
        ("World War II battles in 1944", ["World War II battles in nineteen forty-four"]),
        ("ww1 or ww2?", ["World War I or World War II?", "ww1 or World War II?", "World War I or ww2?"]),
        ("in 1905", []),
        ("from 1914-18, 1,984 or 19844, the 1980s", []),
        ("WWF logo", []),
    ],
)
def test_what_is_short_is_written_out(spelling: Spelling, question: str, found: list[str]) -> None:
    assert sorted(texts(spelling, question)[1:]) == sorted(found)


def test_an_abbreviation_is_not_read_as_a_misspelt_title() -> None:
    assert texts(Spelling([Lexicon.of_titles(["Wii"])]), "when did wwii end")[1:] == ["when did World War II end"]


def test_case_and_accents_are_folded() -> None:
    assert folded("Família ÅNGSTRÖM") == "familia angstrom"
