"""Term proximity: its formula, and that the best blocks are found exactly."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm_core.corpus.records import Block
from realm_core.index import proximity
from realm_core.index.proximity import PROXIMITY_WEIGHT, STANDING, Proximity, best_with_proximity
from realm_core.index.rarity import idf, rarity_of
from realm_core.text.superlatives import Standing
from realm_core.text.wordpieces import Wordpieces

QUESTION = "What is the second-largest city in the province of Sindh?"


def block(title: str, text: str, row: int = 0) -> Block:
    return Block(row, f"b{row}", title, text, 0, 0, len(text), "", "")


def score(question: str, title: str, text: str) -> float:
    return Proximity.of(question).near(block(title, text))


def test_a_block_that_has_all_pairs_has_the_whole_weight() -> None:
    assert score(QUESTION, "Hyderabad", "It is the second-largest city in the province of Sindh.") == pytest.approx(
        PROXIMITY_WEIGHT
    )
    assert score(QUESTION, "Cities of Sindh", "Karachi is the largest city, Hyderabad the second.") < PROXIMITY_WEIGHT
    assert score(QUESTION, "", "") == score(QUESTION, "Sindh", "A province.") == 0


@pytest.mark.parametrize(("between", "near"), [(6, True), (7, False)])
def test_words_are_near_within_a_window_of_eight_in_any_order(between: int, near: bool) -> None:
    for first, second in itertools.permutations(["longest", "river"]):
        text = " ".join([first, *["and"] * between, second])
        assert bool(score("Which river is the longest?", "", text)) == near


def test_title_and_text_are_apart() -> None:
    assert score("longest river", "Longest", "River") == 0
    assert score("longest river", "Longest (river)", "It flows.") == score("longest river", "", "The longest river") > 0


def test_a_question_of_two_words_counts_for_less() -> None:
    """One pair tells less than many."""
    assert 0 < score("longest river", "", "The longest river of all.") < PROXIMITY_WEIGHT / 2


def test_the_usual_word_is_as_good() -> None:
    for asked, written in (("biggest", "largest"), ("largest", "biggest"), ("tallest", "highest")):
        text = f"It is the {written} mountain in Africa."
        assert score(f"{asked} mountain in Africa", "", text) == score(f"{written} mountain in Africa", "", text) > 0


@pytest.mark.parametrize(
    "question",
    ["", "?", "Warsaw", "Where is Warsaw in Poland?", "largest", "What is the largest?", "東京", "the west coast"],
)
def test_a_question_without_a_superlative_and_another_word_has_no_pairs(question: str) -> None:
    assert not Proximity.of(question).weights


def test_a_words_rarity_is_that_of_its_rarest_wordpiece() -> None:
    [ids] = Wordpieces.default().ids(["quaffelhuber"])
    assert len(ids) > 1
    assert rarity_of(["quaffelhuber", "the", ""]) == [
        max(idf()[ids]),
        idf()[Wordpieces.default().ids(["the"])[0][0]],
        0.0,
    ]


@pytest.mark.parametrize(
    ("text", "standing"),
    [
        ("It is the second-largest city in Sindh.", Standing.SAME),
        ("It is the second-largest city in Pakistan.", Standing.NARROWER),
        ("It is the largest city in Sindh.", Standing.OTHER),
        ("It is a city in Sindh.", Standing.UNSAID),
    ],
)
def test_what_a_block_says_of_the_rank_is_added(text: str, standing: Standing) -> None:
    own, proximity = block("", text), Proximity.of(QUESTION)
    assert proximity.score(own) == proximity.near(own) + STANDING[standing]
    assert Proximity.of("Which is the largest?").score(own) == 0


WORDS = ["second", "largest", "city", "Sindh", "river", "and", "the", "Ünïque"]


@given(st.lists(st.sampled_from(WORDS), max_size=7), st.lists(st.sampled_from(WORDS), max_size=40))
def test_it_is_the_share_of_the_questions_pairs(asked: list[str], written: list[str]) -> None:
    """Against the definition word by word."""
    words = [word.lower().replace("ü", "u").replace("ï", "i") for word in asked if word not in ("and", "the")]
    found = [word.lower().replace("ü", "u").replace("ï", "i") for word in written]
    pairs = {
        (words[i], words[j])
        for i, j in itertools.combinations(range(len(words)), 2)
        if j - i <= 2 and words[i] != words[j]
    }
    rarity = {pair: min(rarity_of(list(pair))) for pair in pairs}
    near = {
        (first, second)
        for first, second in pairs
        if any(
            found[i] == first and found[j] == second and abs(i - j) < 8
            for i, j in itertools.product(range(len(found)), repeat=2)
        )
    }
    expected = sum(rarity[pair] for pair in near) / max(12, sum(rarity.values()))
    own = score(" ".join(asked), "", " ".join(written))
    assert own == (pytest.approx(PROXIMITY_WEIGHT * expected) if "largest" in asked else 0)


TEXTS = [
    "the second-largest city in Sindh",
    "the largest city in Sindh",
    "a city in Sindh",
    "second, largest, and in Sindh a city",
    "a river",
]


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.sampled_from(TEXTS)), max_size=60),
    st.integers(1, 8),
    st.sampled_from([1, 3, 50]),
)
def test_the_best_blocks_are_found_as_if_all_were_looked_at(rows: list[tuple[float, str]], k: int, first: int) -> None:
    rows.sort(key=lambda row: -row[0])
    blocks = [block("", text, place) for place, (_, text) in enumerate(rows)]
    asked: list[int] = []

    def best(places: list[int], counts: list[int]) -> list[tuple[list[Block], list[float]]]:
        asked.extend(counts)
        return [(blocks[:count], [score for score, _ in rows[:count]]) for count in counts]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proximity, "READ_FIRST", first)
        [(found, sums), (plain, scores)] = best_with_proximity([QUESTION, "Sindh"], [k, k], best, lambda one: one)
    own = [score + Proximity.of(QUESTION).score(one) for (score, _), one in zip(rows, blocks, strict=True)]
    order = sorted(range(len(rows)), key=lambda place: -own[place])[:k]
    assert [one.row for one in found] == order and sums == [own[place] for place in order]
    assert plain == blocks[:k] and scores == [score for score, _ in rows[:k]]
    assert asked[:2] == [max(k, first), k]
