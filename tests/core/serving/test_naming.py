"""Which wordings are merged, and which must not be."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm_core.questions.answers import normalise_answer
from realm_core.serving.english.implied import implied
from realm_core.serving.naming import NamedAnswer, Wording, languages_read, same_names

TEXT = "Text of the block"


def wording(text: str, probability: float, block: str = TEXT, *, at: int | None = None) -> Wording:
    start = block.find(text) if at is None else at
    return Wording(normalise_answer(text), text, probability, {"b": (start, start + len(text))} if start >= 0 else {})


def named(block: str, *texts: str, title: str = "") -> set[tuple[str, frozenset[str]]]:
    """(displayed text, keys) of each class; earlier texts are more probable."""
    wordings = [wording(text, 1 / (2 + number), block) for number, text in enumerate(texts)]
    return {(one.text, frozenset(one.keys)) for one in same_names(wordings, {"b": block}, {"b": title})}


ONE_NAME = [
    ("Directed by Stanley Kubrick in 1968.", ("Kubrick", "Stanley Kubrick"), "Stanley Kubrick"),
    ("Patented by Alexander Graham Bell.", ("Bell", "Alexander Graham Bell"), "Alexander Graham Bell"),
    (
        "Patented by Alexander Graham Bell.",
        ("Alexander Graham Bell", "Bell", "Graham Bell"),
        "Alexander Graham Bell",
    ),
    ("Vice President Gerald Ford followed.", ("Gerald Ford", "Vice President Gerald Ford", "Ford"), "Gerald Ford"),
    ("A work of Ludwig van Beethoven.", ("Beethoven", "van Beethoven", "Ludwig van Beethoven"), "Ludwig van Beethoven"),
    (
        "Ernst Heinrich Philipp August Haeckel was one.",
        ("Haeckel", "Ernst Heinrich Philipp August Haeckel"),
        "Ernst Heinrich Philipp August Haeckel",
    ),
    ("Painted 1495–1498 in Milan.", ("1495–1498", "1498"), "1495–1498"),
    ("Built from 1887 to 1889 in Paris.", ("1887", "1887 to 1889"), "1887"),
    ("Built from 1887 to 1889 in Paris.", ("1887 to 1889", "1887"), "1887 to 1889"),
    ("They landed on 20 July 1969.", ("1969", "20 July 1969"), "1969"),
    ("Born in Rome, Italy.", ("Rome, Italy", "Rome"), "Rome"),
    ("It was Sir Isaac Newton who found it.", ("Sir Isaac Newton", "Isaac Newton"), "Isaac Newton"),
    ("German is written in the German language.", ("German language", "German"), "German"),
]


@pytest.mark.parametrize(("block", "texts", "shown"), ONE_NAME)
def test_wordings_of_one_name_are_merged(block: str, texts: tuple[str, ...], shown: str) -> None:
    assert named(block, *texts) == {(shown, frozenset(map(normalise_answer, texts)))}


@pytest.mark.parametrize(
    ("question", "titles", "texts", "shown"),
    [
        ("What do they speak in Iran?", ["Iran", "Persian language"], ("Persian",), "Persian language"),
        ("languages of iran", ["Persian language"], ("Persian", "Persian language"), "Persian language"),
        ("What do they speak in Iran?", ["Iran", "Persian people"], ("Persian", "Persian language"), "Persian"),
        ("What nationality was Hafez?", ["Persian language"], ("Persian", "Persian language"), "Persian"),
    ],
)
def test_a_language_that_is_asked_for_is_called_as_its_article(
    question: str, titles: list[str], texts: tuple[str, ...], shown: str
) -> None:
    block = "Persian is written in the Persian language."
    wordings = [wording(text, 1 / (2 + number), block) for number, text in enumerate(texts)]
    (one,) = same_names(wordings, {"b": block}, {}, languages_read(question, titles))
    assert one.text == shown and set(one.keys) == set(map(normalise_answer, texts))
    if normalise_answer(shown) in one.keys:
        assert one.keys[0] == normalise_answer(shown)


@pytest.mark.parametrize(
    ("question", "texts", "shown"),
    [
        ("Which country does sushi come from?", ("Japanese",), ["Japan"]),
        ("Which country does sushi come from?", ("Japanese", "Japan"), ["Japan"]),
        ("In which South American or Asian country is sushi made?", ("Japanese",), ["Japanese"]),
        ("In which East Asian country is sushi made?", ("Japanese",), ["Japan"]),
        ("sushi from what country", ("Japan", "Japanese"), ["Japan"]),
        ("Where was sushi first made?", ("Japanese", "Japan"), ["Japan"]),
        ("What language is spoken in which country?", ("Japanese",), ["Japanese"]),
        ("What cuisine is sushi of?", ("Japanese", "Japan"), ["Japanese", "Japan"]),
        ("What is the country where sushi was made first?", ("Japanese",), ["Japan"]),
        ("Which cuisine of the country has sushi?", ("Japanese",), ["Japanese"]),
        ("Which army conquered the country in 1941?", ("Japanese",), ["Japanese"]),
        ("Where does the word sushi come from?", ("Japanese",), ["Japanese"]),
        ("Which instrument did he play?", ("trumpeter",), ["trumpet"]),
        ("instrument he played", ("trumpet", "jazz trumpeter"), ["trumpet"]),
        ("What was his profession?", ("trumpeter",), ["trumpeter"]),
        ("peles sport", ("footballer",), ["football"]),
        ("Which sport does he play?", ("professional footballer", "football"), ["football"]),
        ("For which sport is she known?", ("tennis player",), ["tennis"]),
        ("What is a footballer?", ("footballer",), ["footballer"]),
        ("What party is he of?", ("Democrat",), ["Democratic Party"]),
        ("What style of clothing suits a garden party?", ("conservative",), ["conservative"]),
        ("Which religion did she have?", ("Catholic",), ["Catholicism"]),
    ],
)
def test_a_wording_is_displayed_as_the_answer_that_it_implies(
    question: str, texts: tuple[str, ...], shown: list[str]
) -> None:
    block = (
        "Sushi is a Japanese dish, made in Japan. He was a jazz trumpeter and played the trumpet. "
        "She is a tennis player, he a professional footballer, and plays football. "
        "She is a Catholic, he a conservative Democrat."
    )
    wordings = [wording(text, 1 / (2 + number), block) for number, text in enumerate(texts)]
    names = same_names(wordings, {"b": block}, {}, {}, implied(question, [one.key for one in wordings]))
    assert [one.text for one in names] == shown
    assert {key for one in names for key in one.keys} == {normalise_answer(text) for text in texts}


TWO_NAMES = [
    ("A formal language.", ("formal language", "formal")),
    ("The Hypertext Markup Language.", ("Hypertext Markup Language", "Hypertext Markup")),
    ("It was 1887, or 1888.", ("1887", "1888")),
    ("Marie Curie and Pierre Curie.", ("Marie Curie", "Pierre Curie")),
    ("Marie Curie and Pierre Curie.", ("Marie Curie", "Pierre Curie", "Curie")),
    ("North Korea is not Korea.", ("North Korea", "Korea")),
    ("South Korea is not Korea.", ("South Korea", "Korea")),
    ("New York is not York.", ("New York", "York")),
    ("World War I and World War II.", ("World War I", "World War II")),
    ("Henry VII and Henry VIII.", ("Henry VII", "Henry VIII")),
    ("It has 4,600 species.", ("4,600", "600")),
    ("They met on July 4, 1776, or 1777.", ("July 4, 1776", "1777")),
    ("It has 5 million people.", ("5", "5 million")),
    ("It has 1500 metres.", ("1500", "1500 metres")),
    ("Its moons are Phobos, Deimos.", ("Phobos", "Phobos and Deimos")),
    ("Its moons are Phobos and Deimos.", ("Phobos", "Phobos and Deimos", "Deimos")),
    ("Rivers are Rhine, Rhone, and Po.", ("Rhine", "Rhine, Rhone")),
    ("In 1945 it began; on 8 May 1945 it ended.", ("1945", "8 May 1945")),  # read at another place
    ("He lived in Washington. George Washington ruled.", ("George Washington", "Washington")),
    ("American Samoa is not Samoa.", ("American Samoa", "Samoa")),
    ("Equatorial Guinea is not Guinea.", ("Equatorial Guinea", "Guinea")),
    ("British Columbia is not Columbia.", ("British Columbia", "Columbia")),
    ("The Atlantic Ocean is an Ocean.", ("Atlantic Ocean", "Ocean")),
    ("The Vietnam War was a War.", ("Vietnam War", "War")),
    ("Oxford University is a University.", ("Oxford University", "University")),
    ("Henry VIII, the VIII of his name.", ("Henry VIII", "VIII")),
    ("Mainland Portugal is most of Portugal.", ("Mainland Portugal", "Portugal")),
    ("The City of London is the oldest part of London.", ("City of London", "London")),
    ("Santiago de Cuba is in Cuba.", ("Santiago de Cuba", "Cuba")),
    ("Latin America is a part of America.", ("Latin America", "America")),
    ("The Holy Roman Empire was not the Roman Empire.", ("Holy Roman Empire", "Roman Empire")),
]


@pytest.mark.parametrize(("block", "texts"), TWO_NAMES)
def test_other_names_are_not_merged(block: str, texts: tuple[str, ...]) -> None:
    assert named(block, *texts) == {(text, frozenset([normalise_answer(text)])) for text in texts}


SUBJECTS = [
    ("Aretha Franklin", "Aretha Louise Franklin was an American singer.", "Aretha Louise Franklin"),
    ("Tim Berners-Lee", "Sir Timothy John Berners-Lee, also known as TimBL, is", "Timothy John Berners-Lee"),
    ("Tim Berners-Lee", "Sir Timothy John Berners-Lee, also known as TimBL, is", "Sir Timothy John Berners-Lee"),
    ("Bob Marley", "Robert Nesta Marley was a Jamaican singer.", "Robert Nesta Marley"),
    ("Bill Gates", "William Henry Gates III is an American.", "William Henry Gates III"),
    ("Cleopatra", "Cleopatra VII Thea Philopator was Queen.", "Cleopatra VII Thea Philopator"),
    ("Frida Kahlo", "Magdalena Carmen Frida Kahlo y Calderón was a painter.", "Frida Kahlo y Calderón"),
    ("J. K. Rowling", "Joanne Rowling, known by her pen name, is", "Joanne Rowling"),
    ("Madonna (entertainer)", "Madonna Louise Ciccone (; born August 16, 1958) is", "Madonna Louise Ciccone"),
    ("C. S. Lewis", "Clive Staples Lewis was a writer.", "Clive Staples Lewis"),
    ("Atlantic Ocean", "The Atlantic Ocean is the second-largest.", "The Atlantic Ocean"),
    ("Harry S. Truman", "Harry S Truman was the 33rd president.", "Harry S Truman"),
    ("Ernst Haeckel", "Ernst Heinrich Philipp August Haeckel was a zoologist.", "August Haeckel"),
    ("Guru Nanak", "The first Guru is Gurū Nānak, born in 1469.", "Gurū Nānak"),
    ("Śāriputra", "A monk, Sariputra, was his disciple.", "Sariputra"),
]


@pytest.mark.parametrize(("title", "block", "text"), SUBJECTS)
def test_an_articles_subject_is_displayed_as_its_title(title: str, block: str, text: str) -> None:
    shown = title.removesuffix(" (entertainer)")
    assert named(block, text, title=title) == {(shown, frozenset([normalise_answer(text)]))}


@pytest.mark.parametrize("title", ["Frank Lampard", "Franklin", "Benjamin Franklin", ""])
def test_other_wordings_are_not_displayed_as_the_title(title: str) -> None:
    block = "Aretha Louise Franklin was an American singer."
    assert named(block, "Aretha Louise Franklin", title=title) == {
        ("Aretha Louise Franklin", frozenset(["aretha louise franklin"]))
    }


OTHER_SUBJECTS = [
    ("Pierre Curie", "Paul Curie wrote this.", "Paul Curie"),
    ("George W. Bush", "George H. W. Bush was his father.", "George H. W. Bush"),
    ("Derry", "Derry City was founded in 1928.", "Derry City"),
    ("Pannonia", "Pannonia Superior was a province.", "Pannonia Superior"),
    ("Whitney Houston", "When Houston sang, they listened.", "When Houston"),
    ("Ernst Haeckel", "Paul August Haeckel was his brother.", "August Haeckel"),
    ("Frida Kahlo", "Magdalena Carmen Frida Kahlo y Calderón was a painter.", "Kahlo y Calderón"),
    ("Ernst Haeckel", "Ernst Heinrich Haeckel and August Haeckel.", "August Haeckel"),
    ("Guru Nanak", "The second Guru is Gurū Angad.", "Gurū Angad"),
    (
        "International Maritime Organization",
        "Inter-Governmental Maritime Organization it was.",
        "Inter-Governmental Maritime Organization",
    ),
]


@pytest.mark.parametrize(("title", "block", "text"), OTHER_SUBJECTS)
def test_another_thing_is_not_displayed_as_the_title(title: str, block: str, text: str) -> None:
    assert named(block, text, title=title) == {(text, frozenset([normalise_answer(text)]))}


def test_a_title_with_other_accents_joins_it() -> None:
    block = "Gurū Nānak, or Guru Nanak, is the first Guru."
    assert named(block, "Gurū Nānak", "Guru Nanak", title="Guru Nanak") == {
        ("Guru Nanak", frozenset(map(normalise_answer, ("Gurū Nānak", "Guru Nanak"))))
    }


def test_titles_that_differ_by_accents_alone_stay_two_names() -> None:
    block = "Canada is a country, and a cañada is a valley: Cañada."
    wordings = [wording("Canada", 0.5, block), wording("Cañada", 0.25, block)]
    names = same_names(wordings, {"b": block}, {"b": "Canada", "other": "Cañada"})
    assert [one.text for one in names] == ["Canada", "Cañada"]


def test_two_longer_forms_of_a_title_that_was_not_read_are_one_name() -> None:
    texts = ("William Henry Gates III", "William Henry Gates", "Gates")
    assert named("William Henry Gates III is an American.", *texts, title="Bill Gates") == {
        ("Bill Gates", frozenset(map(normalise_answer, texts)))
    }


def test_the_subject_of_an_article_is_not_taken_for_a_surname() -> None:
    texts = ("Tudor England", "England")
    block = "Tudor England was England under the Tudors."
    assert named(block, *texts, title="England") == {(text, frozenset([normalise_answer(text)])) for text in texts}


def test_a_fragment_of_a_full_name_is_no_rival_of_the_name() -> None:
    block = "Selma Ottilia Lovisa Lagerlöf (1858–1940) wrote it. Lagerlöf was the first, and Selma Lagerlöf is known."
    texts = ("Lagerlöf", "Selma Lagerlöf", "Selma Ottilia Lovisa Lagerlöf", "Lovisa Lagerlöf")
    keys = frozenset(map(normalise_answer, texts))
    assert named(block, *texts, title="Selma Lagerlöf") == {("Selma Lagerlöf", keys)}


def test_contrary_years_are_not_added_up() -> None:
    block = "It lasted from 1914 to 1918."
    assert named(block, "1918", "1914", "from 1914 to 1918") == {
        ("1918", frozenset(["1918", "from 1914 to 1918"])),
        ("1914", frozenset(["1914"])),
    }


def test_names_of_each_other_are_all_kept() -> None:
    """Two articles, each of which begins with a longer form of a title that is the other's beginning."""
    texts = {"a": "Robert Nesta Marley was a singer.", "b": "Robert Marley was another."}
    titles = {"a": "Robert Marley", "b": "Bob Marley"}
    wordings = [
        Wording("robert nesta marley", "Robert Nesta Marley", 0.5, {"a": (0, 19)}),
        Wording("robert marley", "Robert Marley", 0.3, {"b": (0, 13)}),
        Wording("bob marley", "Bob Marley", 0.1, {}),
    ]
    keys = [key for one in same_names(wordings, texts, titles) for key in one.keys]
    assert sorted(keys) == sorted(wording.key for wording in wordings)


def test_a_later_name_in_an_article_is_not_its_subject() -> None:
    block = "It was George Herbert Walker Bush who ran."
    assert named(block, "George Herbert Walker Bush", title="George Bush") == {
        ("George Herbert Walker Bush", frozenset(["george herbert walker bush"]))
    }


def test_the_subject_joins_its_title_together_with_the_surname() -> None:
    block = "Robert Nesta Marley was a singer. Bob Marley was born in 1945. Marley died in 1981."
    assert named(block, "Robert Nesta Marley", "Bob Marley", "Marley", title="Bob Marley") == {
        ("Bob Marley", frozenset(["robert nesta marley", "bob marley", "marley"]))
    }


WORDS = st.sampled_from(["Curie", "Marie", "Pierre", "1887", "to", "1889", "Rome,", "Italy", "North", "Korea", "Sir"])
TITLES = st.sampled_from(["", "Curie", "Marie Curie", "The Curie", "M. Curie", "Korea"])


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4).map(" ".join), min_size=1, max_size=8), st.randoms(), TITLES)
def test_each_wording_is_in_one_class_in_any_order(texts: list[str], order: random.Random, title: str) -> None:
    block = ". ".join(texts)
    made = {
        normalise_answer(text): wording(text, 1 / (1 + len(text)), at=block.find(text))
        for text in texts
        if normalise_answer(text)
    }
    wordings = list(made.values())
    classes = same_names(wordings, {"b": block}, {"b": title})
    assert sorted(key for one in classes for key in one.keys) == sorted(made)
    order.shuffle(wordings)
    assert set(same_names(wordings, {"b": block}, {"b": title})) == set(classes)
    assert all(isinstance(one, NamedAnswer) and re.search(r"\w", one.text) for one in classes)
