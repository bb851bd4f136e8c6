"""Whoever asks for several things gets all of an enumeration, whichever item is read."""

from __future__ import annotations

import pytest

from realm_core.serving.english.lists import items_asked_for
from realm_core.serving.english.whole_answers import WholeAnswer

ANY = range(3, 100)


def shown(question: str, text: str, read: str) -> str:
    start = text.index(read)
    first, last = WholeAnswer.of(question).around(text, start, start + len(read), None)
    return text[first:last]


@pytest.mark.parametrize(
    ("question", "items"),
    [
        ("What are the five boroughs of New York City?", range(5, 6)),
        ("what are the 3 main types of rock", range(3, 4)),
        ("Who were the three astronauts on Apollo 11?", range(3, 4)),
        ("Which two countries share the island of Hispaniola?", range(2, 3)),
        ("What are the names of the five Great Lakes?", range(5, 6)),
        ("name the four gospels", range(4, 5)),
        ("3 main types of rock", range(3, 4)),
        ("list of noble gases", ANY),
        ("bronte sisters names", ANY),
        ("name the planets", ANY),
        ("What were the names of Columbus's ships?", range(0)),
        ("What are the symptoms of the flu?", ANY),
        ("Which countries make up Scandinavia?", ANY),
        ("what countries border sudan", ANY),
        ("germany neighbouring countries", ANY),
        ("Which of the two world wars was longer?", range(0)),
        ("How many of the five lakes are in Canada?", range(0)),
        ("Which four letter word means love?", range(0)),
        ("What is the name of the largest lake?", range(0)),
        ("members of the beatles", ANY),
        ("Who were the original members of Queen?", ANY),
        ("Which musical did members of Queen write?", range(0)),
        ("Which film is first on the list of the best?", range(0)),
        ("Who wrote The Three Musketeers?", range(0)),
        ("Who was the first of the twelve Caesars?", range(0)),
        ("What are the two of them called?", range(0)),
    ],
)
def test_how_many_are_asked_for(question: str, items: range) -> None:
    assert items_asked_for(question) == items


@pytest.mark.parametrize(
    ("question", "text", "read", "answer"),
    [
        (
            "What are the five boroughs of New York City?",
            "Five boroughs, each of which is a county: Brooklyn, Queens, Manhattan, the Bronx, and Staten Island.",
            "Manhattan",
            "Brooklyn, Queens, Manhattan, the Bronx, and Staten Island",
        ),
        ("Which two countries share it?", "It lies between France and Spain.", "Spain", "France and Spain"),
        (
            "3 main types of rock",
            "There are three groups: igneous, sedimentary and metamorphic rocks.",
            "igneous",
            "igneous, sedimentary and metamorphic rocks",
        ),
        (
            "list of the sisters",
            "The sisters, Charlotte (1816–1855), Emily (1818–1848) and Anne (1820–1849), were novelists.",
            "Emily",
            "Charlotte (1816–1855), Emily (1818–1848) and Anne (1820–1849)",
        ),
        (
            "What are the two types of twins?",
            "Twins are either monozygotic (identical) or dizygotic (fraternal).",
            "monozygotic",
            "monozygotic (identical) or dizygotic (fraternal)",
        ),
        (
            "What are the symptoms of it?",
            "Symptoms often include fever, a runny nose (red, or blue), and fatigue in adults.",
            "fever",
            "fever, a runny nose (red, or blue), and fatigue",
        ),
        # An enumeration of another number, and what stands beside one
        ("What are the three lakes?", "They are Superior, Michigan, Huron and Erie.", "Huron", "Huron"),
        ("What are the two lakes?", "They are Superior, Michigan, and Huron.", "Huron", "Huron"),
        ("list of the lakes", "In Ohio, Superior, Michigan and Huron are lakes.", "lakes", "lakes"),
        ("list of the cities", "The old towns of Rome and Ostia.", "Rome", "Rome"),
        ("What are the three names?", "He is Ali, also called Ali Bey, and Bey.", "Ali Bey", "Ali Bey"),
        ("name the actors", "At Fox, the film starred Adam West and Burt Ward.", "Burt Ward", "Burt Ward"),
        ("list of the sitcoms", 'He wrote "One", behind "Two, Three", and Four.', '"One"', '"One"'),
        ("Which two countries?", "He met Michael Smith and earned a prize.", "Michael Smith", "Michael Smith"),
        ("Which two countries?", "It joins Montjoie and Arve in France.", "France", "France"),
        ("Which two elements?", "The elements radium and polonium.", "radium and polonium", "radium and polonium"),
        ("Which two elements?", "The elements radium and polonium.", "polonium", "elements radium and polonium"),
        (
            "list of aims",
            "It has (but: not only), the Ends, the Goals and the Aims.",
            "the Ends",
            "the Ends, the Goals and the Aims",
        ),
        ("list of foods", "He ate (or: drank wine, beer), bread, salt and oil.", "salt", "bread, salt and oil"),
        ("list of all", "He met " + "Ann, " * 60 + "and Eve.", "Eve", "Eve"),
        # Who asks for one gets one
        ("Which lake is the largest?", "They are Superior, Michigan, and Huron.", "Superior", "Superior"),
    ],
)
def test_an_item_is_displayed_with_its_enumeration(question: str, text: str, read: str, answer: str) -> None:
    assert shown(question, text, read) == answer
