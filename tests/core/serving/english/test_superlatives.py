"""A block that has a question's superlative with other ordinals alone does not answer."""

from __future__ import annotations

import pytest
import torch

from realm_core.corpus.records import Block
from realm_core.serving.english.rules import PENALTY, SAID, Rules
from realm_core.serving.english.unknown_words import DOUBT
from realm_core.text.superlatives import AskedRank, Standing
from realm_core.text.wordpieces import Wordpieces


def block(text: str) -> Block:
    return Block(0, "0" * 32, "Ahmedabad", text, 0, 0, len(text), "", "")


@pytest.mark.parametrize(
    ("question", "superlative", "place"),
    [
        ("What is the second largest city in Gujarat?", "largest", 2),
        ("What is the second-largest city in Gujarat?", "largest", 2),
        ("2nd biggest country in africa", "largest", 2),
        ("biggest lake north america", "largest", 1),
        ("What is the fourth most populous city in Russia?", "most populous", 4),
        ("tallest animal in the world", "highest", 1),
        ("Which animal on land is the tallest?", "highest", 1),
        ("Which planet is the second-largest?", "largest", 2),
        ("What is the most common element in the universe?", "most abundant", 1),
    ],
)
def test_what_is_asked_for(question: str, superlative: str, place: int) -> None:
    asked = AskedRank.of(question)
    assert asked is not None and (asked.ranked.superlative, asked.ranked.place) == (superlative, place)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Who is the best-known painter?",
        "What is the largest?",
        "Name one of the largest lakes.",
        "What is the largest city in the second largest country?",
        "Where is the west?",
    ],
)
def test_a_question_without_one_superlative_and_its_noun_asks_for_no_place(question: str) -> None:
    assert AskedRank.of(question) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("It is the second-largest city in Gujarat.", False),
        ("Ahmedabad is the largest city in Gujarat.", True),
        ("It is the 3rd biggest City of Gujarat, and the largest port.", True),
        ("It is the largest city in Gujarat and the second largest city in the west.", False),
        ("It is one of the largest cities in Gujarat.", False),
        ("The largest cities are Ahmedabad and Surat.", False),
        ("It is the third-largest city after Surat.", False),
        ("It is the largest port in Gujarat.", False),
        ("It is the second-largest port city, and the third-largest city.", True),
        ("It is the largest port city.", False),
        ("It is a city in Gujarat.", False),
        ("", False),
    ],
)
def test_a_block_that_names_other_places_alone(text: str, other: bool) -> None:
    asked = AskedRank.of("What is the second largest city in Gujarat?")
    assert asked is not None and (asked.standing_in(text) is Standing.OTHER) == other


@pytest.mark.parametrize(
    ("question", "text", "standing"),
    [
        ("largest lake in the world", "It is the world's largest lake.", Standing.SAME),
        (
            "biggest lake north america",
            "A lake in central North America. It is the largest freshwater lake in the world.",
            Standing.SAME,
        ),
        (
            "largest lake in North America",
            "A lake in North America, the largest freshwater lake.",
            Standing.SAME,
        ),
        ("largest lake in South America", "A lake in North America, the largest freshwater lake.", Standing.UNSAID),
        ("largest lake in the world", "It is the largest freshwater lake in the world.", Standing.UNSAID),
        ("largest lake in Africa", "It lies in Africa, the largest freshwater lake in Kenya.", Standing.NARROWER),
        ("largest city in Africa", "It lies in Africa and has the largest city park.", Standing.UNSAID),
        ("second largest lake in Africa", "It lies in Africa, the largest freshwater lake.", Standing.UNSAID),
        ("second largest lake in Africa", "It lies in Africa, the second-largest freshwater lake.", Standing.UNSAID),
        ("highest mountain in Sweden", "The highest point of Sweden is Kebnekaise.", Standing.SAME),
        ("tallest peak sweden", "It is the second-highest mountain in Sweden.", Standing.OTHER),
        ("highest building in Sweden", "The highest point of Sweden is Kebnekaise.", Standing.UNSAID),
        ("largest lake in the world", "It is the largest lake by area in Africa.", Standing.NARROWER),
        ("largest lake in the world", "It is Africa's largest lake.", Standing.NARROWER),
        ("largest lake in the world", "It is Africa's largest lake, and the largest lake on Earth.", Standing.SAME),
        ("largest lake in the world", "It is the largest artificial lake.", Standing.UNSAID),
        ("highest mountain in europe", "It is the highest mountain in Russia and Europe.", Standing.SAME),
        ("highest mountain in europe", "It is the highest mountain in the Alps and Western Asia.", Standing.NARROWER),
        ("highest mountain in europe", "It is the highest mountain in Europe outside the Caucasus.", Standing.UNSAID),
        (
            "largest city in the world",
            "It is the largest city in Africa, the Arab World and the Middle East.",
            Standing.NARROWER,
        ),
        ("largest city in the world", "It is the World's largest city.", Standing.SAME),
        ("largest city india", "The largest city in Gujarat, India.", Standing.SAME),
        ("What is the biggest lake of Africa?", "It is Africa's largest lake.", Standing.SAME),
        ("What is the biggest lake of Africa?", "It is the second largest lake of Africa.", Standing.OTHER),
        ("biggest lake in são paulo", "The biggest lake in São Paulo.", Standing.SAME),
        (
            "largest planet",
            "It is the fifth planet, and the largest in the Solar System. It is a gas giant.",
            Standing.SAME,
        ),
        ("largest planet", "It is the sixth planet, and the second-largest in the Solar System.", Standing.OTHER),
        ("largest planet", "It is a planet. It is the largest in the Solar System.", Standing.UNSAID),
        ("largest planet", "It is the largest of the moons.", Standing.UNSAID),
        ("largest bird", "It is the largest living species of bird.", Standing.SAME),
        ("largest bird", "It is the largest known living bird.", Standing.SAME),
        ("largest animal on Earth", "It is the largest animal ever known to have existed.", Standing.SAME),
        ("largest animal on Earth", "It is the largest living land animal.", Standing.UNSAID),
        ("tallest animal", "It is the tallest, largest and heaviest extant species of deer.", Standing.NARROWER),
        ("tallest animal", "Giraffes are mammals. They are the tallest living terrestrial animals.", Standing.SAME),
        ("tallest land animal", "Giraffes are the tallest animals.", Standing.SAME),
        ("largest butterfly", "They are the world's largest butterflies.", Standing.SAME),
        ("largest animal", "They are the largest land animals.", Standing.UNSAID),
        ("largest lake", "Among them are some of the largest lakes.", Standing.UNSAID),
        ("tallest deer", "It is the tallest, largest and heaviest extant species of deer.", Standing.SAME),
        ("heaviest deer", "It is the tallest and the largest in Asia, and the heaviest deer.", Standing.SAME),
        ("deepest lake", "It is the deepest of the Great Lakes.", Standing.NARROWER),
        ("lightest element", "It is the simplest, lightest and most abundant chemical element.", Standing.SAME),
        ("most common element in the universe", "It is the most common element on Earth.", Standing.NARROWER),
        ("most abundant element on earth", "It is the most common element on Earth.", Standing.SAME),
        ("Which animal is the largest?", "It is the largest animal.", Standing.SAME),
        ("biggest lake in North America", "It is the largest lake in South America.", Standing.NARROWER),
        ("longest river south america", "It is the longest river in South Africa.", Standing.NARROWER),
        ("longest river south america", "It is the longest river in South America.", Standing.SAME),
        ("biggest planet solar system", "It is the fifth planet, and the largest in the Solar System.", Standing.SAME),
        ("biggest planet solar system", "It is the fifth moon, and the largest in the Solar System.", Standing.UNSAID),
    ],
)
def test_what_a_text_says_of_the_rank(question: str, text: str, standing: Standing) -> None:
    asked = AskedRank.of(question)
    assert asked is not None and asked.standing_in(text) is standing


def test_all_its_spans_count_for_less_or_for_more() -> None:
    logits_LM, rules = torch.zeros(3, 2), Rules.of("What is the second largest city in Gujarat?")
    [body] = Wordpieces.default().encode(["Ahmedabad is large."])
    unranked = Rules.of("What is Gujarat?")
    for text, added in (
        ("It is the largest city in Gujarat.", -PENALTY),
        ("It is the second-largest city.", SAID),
        ("It is a city in Gujarat.", 0.0),
        ("It is the second-largest city in Kerala.", -DOUBT),
    ):
        assert torch.equal(rules.applied(logits_LM, block(text), body), torch.full((3, 2), added))
        assert torch.equal(unranked.applied(logits_LM, block(text), body), logits_LM)
