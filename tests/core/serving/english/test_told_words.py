"""A block without words for the asker, the moment, the future or a taste hardly answers questions about them."""

from __future__ import annotations

import pytest

from realm_core.serving.engine import Engine
from realm_core.serving.english.told_words import ToldWords
from tests.core.engines import check_sums


@pytest.mark.parametrize(
    ("question", "lacking", "telling"),
    [
        ("What is my dog's name?", "Dogs are mammals.", "My dog is called Rex."),
        ("What did I have for breakfast?", "Cereal is a breakfast.", "For breakfast they gave me cereal."),
        ("open pharmacy near me", "A pharmacy sells medicine.", "The pharmacy near me."),
        ("Who wrote My Fair Lady?", "He wrote Camelot.", "He wrote Camelot and My Fair Lady."),
        ("How is the traffic in Rome right now?", "Rome has trams.", "Rome now has trams."),
        ("Who presents This Morning?", "The Morning Show is a series.", "He presented This Morning on ITV."),
        ("Who directed Last Night in Soho?", "Soho is in London.", "Last Night in Soho is a film."),
        ("Who directed Next Friday?", "Friday is a film.", "Next Friday is a film."),
        ("Who is president of France right now?", "France has a president.", "He has been president since 2017."),
        ("stock market next week", "A stock is a share.", "Tomorrow the market opens."),
        ("latest news today", "News is information.", "Today's news."),
        ("Who will be the first person on Mars?", "He was the first person on the Moon.", "She will be the first."),
        ("When will Halley's Comet come back?", "It came in 1986.", "It is expected in 2061."),
        ("who is going to be the next pope", "He was pope.", "He is going to be pope in the future."),
        ("Who will be the next pope?", "A rock on which it would be built; due in 1929.", "It is scheduled for 2031."),
        ("What will the weather be like in Lima?", "Lima is warm.", "Lima is forecast to be warm."),
        ("Who is the funniest person ever?", "He was a comedian.", "She was a funny person."),
        ("Which is better, tea or coffee?", "Tea is a drink.", "Tea is better than water."),
        ("What was Napoleon's favourite colour?", "Green is a colour.", "His favorite was green."),
    ],
)
def test_what_a_block_must_tell(question: str, lacking: str, telling: str) -> None:
    words = ToldWords.of(question)
    assert not words.are_in("", lacking) and words.are_in("", telling) and words.are_in(telling, lacking)


@pytest.mark.parametrize(
    "question",
    [
        "My old atlas says Port Elizabeth - which country is that in?",
        "In which museum can I see Guernica?",
        "What did I. M. Pei build?",
        "When was I Love Lucy first broadcast?",
        "When was I, Robot written?",
        "In which decade was I-95 built?",
        "theodoric i was king of what people",
        "Who carries out a will?",
        "Which metal will not make an amalgam?",
        "What is Bombay called today?",
        "Which metal conducts electricity best?",
        "Which current flows in the Atlantic?",
        "Who painted the Mona Lisa?",
    ],
)
def test_other_questions_ask_for_no_words(question: str) -> None:
    assert ToldWords.of(question).are_in("", "")


def test_what_nobody_tells_is_answered_less_readily(engine: Engine) -> None:
    known, unknown = "Who wrote Hamlet?", "Who will have written Hamlet next week?"
    told, doubted = engine.ask(known), engine.ask(unknown)
    for answer in (told, doubted):
        check_sums(answer)
    assert told.no_answer_probability is not None and doubted.no_answer_probability is not None
    assert doubted.share < told.share
