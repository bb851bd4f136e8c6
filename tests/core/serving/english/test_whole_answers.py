"""Definitions and periods are displayed whole, whichever part of them is read."""

from __future__ import annotations

import pytest

from realm_core.corpus.records import Block
from realm_core.serving.english.whole_answers import WholeAnswer

DEMOCRACY = "Democracy is a form of government in which power is vested in the people. It is old."
MERKEL = "Angela Dorothea Merkel is a German politician who served as Chancellor of Germany from 2005 to 2021."
WHOLE_DEMOCRACY = "a form of government in which power is vested in the people"
WHOLE_MERKEL = "a German politician who served as Chancellor of Germany from 2005 to 2021"


def shown(question: str, text: str, read: str, *, title: str = "Any", start: int = 0) -> str:
    whole = WholeAnswer.of(question)
    definition = whole.definition_in(Block(0, "1", title, text, 0, start, start + len(text), "", ""))
    first, last = whole.around(text, text.index(read), text.index(read) + len(read), definition)
    return text[first:last]


@pytest.mark.parametrize(
    ("question", "title", "text", "read", "answer"),
    [
        ("What is democracy?", "Democracy", DEMOCRACY, "government", WHOLE_DEMOCRACY),
        ("what's a democracy", "Democracy", DEMOCRACY, "power", WHOLE_DEMOCRACY),
        ("democracy", "Democracy (politics)", DEMOCRACY, "government", WHOLE_DEMOCRACY),
        ("What are democracies?", "Democracy", DEMOCRACY, "government", "government"),
        ("What is democracy?", "Democracy", DEMOCRACY, "old", "old"),  # in another sentence
        ("What is democracy?", "Direct democracy", DEMOCRACY, "government", "government"),
        ("What is democracy a form of?", "Democracy", DEMOCRACY, "government", "government"),
        ("Who is Angela Merkel?", "Angela Merkel", MERKEL, "Chancellor", WHOLE_MERKEL),
        ("who was merkel", "Angela Merkel", MERKEL, "Chancellor", WHOLE_MERKEL),
        ("What office did Angela Merkel have?", "Angela Merkel", MERKEL, "Chancellor", "Chancellor"),
        ("What is a tide?", "Tides", "Tides are rising water.", "water", "rising water"),
        ("What is a list?", "List", "List is " + "one, " * 80 + "end.", "one", ("one, " * 50)[:248]),
        ("What is a fragment?", "Fragment", "A fragment, nothing more.", "nothing", "nothing"),
    ],
)
def test_a_definition_is_one_answer(question: str, title: str, text: str, read: str, answer: str) -> None:
    assert shown(question, text, read, title=title) == answer


def test_a_later_block_of_an_article_defines_nothing() -> None:
    assert shown("What is democracy?", DEMOCRACY, "government", title="Democracy", start=900) == "government"


@pytest.mark.parametrize(
    ("question", "text", "read", "answer"),
    [
        ("In which years was she prime minister?", "She was it from 1979 to 1990.", "1979", "1979 to 1990"),
        ("In which years was she prime minister?", "She was it from 1979 to 1990.", "1979 to 1990", "1979 to 1990"),
        (
            "When did Ann reign?",
            "Queen from 20 June 1837 until her death in 1901.",
            "1837",
            "20 June 1837 until her death in 1901",
        ),
        ("When was he president?", "From May 4, 1861–1865 he was.", "1861", "May 4, 1861–1865"),
        ("In which years was he born?", "He was born in 1950. To 1960 he", "1950", "1950"),
        ("When was she born?", "She lived from 1979 to 1990.", "1979", "1979"),
        ("When did she reign?", "She reigned from 1979 to 1990.", "1990", "1979 to 1990"),
        ("How long did the war last?", "A war from 1945 until 1990.", "1990", "1945 until 1990"),
        ("How long was the wall?", "It was 1979 m.", "1979", "1979"),
        ("how many years did she reign", "She reigned from 1979 for 11 years.", "11", "11"),
        ("when did hesiod live", "He lived between 750 and 650 BC.", "650 BC", "between 750 and 650 BC"),
        ("classical music period dates", "The era between about 1750 and 1820.", "1750", "between about 1750 and 1820"),
        ("wari empire what years", "It flourished from 500 to 1000 AD in Peru.", "1000 AD", "500 to 1000 AD"),
        ("When did she live in Rome?", "She lived there in 1979.", "1979", "1979"),
    ],
)
def test_a_period_is_displayed_whole(question: str, text: str, read: str, answer: str) -> None:
    assert shown(question, text, read) == answer


@pytest.mark.parametrize(
    ("question", "text", "read", "answer"),
    [
        ("how many kinds of marlin", "There are between 9 and 11 species.", "11", "between 9 and 11"),
        ("how many kinds of marlin", "There are between 9 and 11 species.", "9", "between 9 and 11"),
        ("how many kinds of marlin", "There are between 9 and 11 species.", "9 and 11", "between 9 and 11"),
        ("How heavy is it?", "It weighs 14–45 kg.", "45 kg", "14–45 kg"),
        ("How heavy is it?", "It weighs 1,400 to 4,500 kg.", "1,400", "1,400 to 4,500"),
        ("How heavy is it at most?", "It weighs 14–45 kg.", "45 kg", "45 kg"),
        ("How heavy is the heaviest?", "It weighs 14–45 kg.", "45 kg", "45 kg"),
        ("How many are there?", "Of 9 species, 11 and 12 are rare.", "9", "9"),
        ("How many did it sell?", "The F-16 and F-15 sold 9.", "9", "9"),
        ("Which bus is it?", "Buses 9 to 11 go.", "9", "9"),
    ],
)
def test_a_range_is_displayed_whole(question: str, text: str, read: str, answer: str) -> None:
    assert shown(question, text, read) == answer


def test_the_term_is_no_definition_of_itself() -> None:
    assert WholeAnswer.of("What is a black hole?").only_repeats("black holes")
    assert not WholeAnswer.of("What is a black hole?").only_repeats("hole")
    assert not WholeAnswer.of("black hole").only_repeats("black hole")
    assert not WholeAnswer.of("What is the capital of Guatemala?").only_repeats("guatemala")


@pytest.mark.parametrize(
    ("question", "text", "read", "answer"),
    [
        ("On what date did he land?", "He landed on July 20, 1969, at night.", "1969", "July 20, 1969"),
        ("landing date", "Born on 5 May 1930, he landed on July 20, 1969.", "1969", "July 20, 1969"),
        ("moon landing date", "He landed on 20 July 1969.", "July 1969", "20 July 1969"),
        ("When is her birthday?", "She was born on 20 July.", "July", "20 July"),
        ("What day was it?", "It was in July 1969.", "1969", "1969"),
        ("When did he land?", "He landed on July 20, 1969.", "1969", "1969"),
        ("scientific name honey bee", "The honey bee (Apis mellifera) is", "Apis", "Apis mellifera"),
        ("What is the Latin name of the bee?", "Apis mellifera, the bee, is", "mellifera", "Apis mellifera"),
        ("What genus is the bee of?", "The honey bee (Apis mellifera) is", "Apis", "Apis"),
        ("scientific name of bees", "Apis has seven species.", "Apis", "Apis"),
        ("How many have landed to date?", "He landed on July 20, 1969.", "1969", "1969"),
    ],
)
def test_a_date_is_displayed_with_its_day(question: str, text: str, read: str, answer: str) -> None:
    assert shown(question, text, read) == answer
