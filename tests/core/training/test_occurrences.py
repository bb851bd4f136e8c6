"""Where answers stand in a corpus: what is found reads the answer, and among plain words nothing is missed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import open_tokens
from realm_core.errors import Stopped
from realm_core.questions.answers import answer_pattern, holds_answer, normalise_answer, regex_match
from realm_core.questions.question_file import Question
from realm_core.runs.activity import Activity
from realm_core.text.wordpieces import Wordpieces
from realm_core.training import occurrences as occurrences_module
from realm_core.training.occurrences import OccurrenceFinder, Occurrences, find_all
from tests.core.running import Stopping
from tests.core.training.material import QUESTIONS
from tests.nightly import examples
from tests.tiny import tiny_snapshot

PLAIN = "Ada Nile Phobos Thimphu polonium 1869 November moons Kubrick sea to".split()
ARTICLES = ["the", "a", "an", "The"]
MARKED = (
    "Nile, (Nile) U.S. us Spider-Man Spider Man 3,422 3.5 café °C 10 a.m. A.C. Milan Jack-in-the-box 'Mars' A-1".split()
)
CASES = [
    # text, answer, what is found
    ("It flows, the Nile, to the sea.", "the nile", ["Nile"]),
    ("It flows, the Nile, to the sea.", "Nile to sea", ["Nile, to the sea"]),
    ("(Nile) and 'Nile' and Niles.", "Nile", ["Nile", "Nile"]),
    ("In the U.S. it is.", "U.S.", ["U.S"]),
    ("At 3,422 °C it melts.", "3422 °C", []),  # joined over punctuation: not looked for
    ("At 3,422 °C it melts.", "3,422 °C", ["3,422 °C"]),
    ("Gone with the Wind won.", "Gone With Wind", ["Gone with the Wind"]),
    ("A Jack-in-the-box and Jack in box.", "Jack-in-the-Box", ["Jack-in-the-box"]),
    ("At 10 a.m. and at 10 m or 10.", "10 a.m.", ["10 a.m."]),
    ("The sauce A-1, and 1 more.", "A-1", ["A-1"]),
    ("Vitamin A and vitamin C.", "vitamin A", ["Vitamin", "vitamin"]),  # as when answers are compared
    ("An abacus has beads.", "abacus", ["abacus"]),
    ("an abacus", "an abacus", ["abacus"]),
    ("The anorak, the theropod.", "theropod", ["theropod"]),  # whose first wordpieces are "an" and "the"
    ("The anorak, the theropod.", "the anorak", ["anorak"]),
    ("Words of wordsmiths and wordless words.", "words", ["Words", "words"]),
    ("Marked café, Beyoncé.", "beyonce", ["Beyoncé"]),
    ("Symbols \U0001f600 and ☃︎ stand there.", "\U0001f680", []),  # all unknown wordpieces are one
    ("The the the.", "the", []),
    ("Nothing, it seems.", "...", []),
    ("Ends in Nile", "Nile", ["Nile"]),
    ("Gone: (a) [the]: with - the - Wind.", "gone with wind", []),  # too far apart
]
EXPRESSIONS = [
    # text, expression, what is found
    ("It opened on 17 November 1869.", r"(17 )?Nov\w* 1869", ["17 November 1869"]),
    ("It opened on 17 November 1869.", "Novem", ["November"]),  # a word is taken whole
    ("It opened on 17 November 1869.", "vember", []),  # but must begin where the expression does
    ("PHOBOS and Deimos", "phobos|deimos", ["PHOBOS", "Deimos"]),
    ("PHOBOS and Deimos", "bos|mos", []),
    ("PHOBOS and Deimos", "pho", ["PHOBOS"]),  # of whatever wordpieces
    ("anything", "z*", []),
    ("Mars and Mars", "^mars", ["Mars"]),
    ("words apart", r"\sapart", []),
]


class Corpus:
    """A snapshot, its finder, and what a span of a block reads."""

    def __init__(self, folder: Path, articles: dict[str, str]) -> None:
        self.snapshot = Snapshot.open(tiny_snapshot(folder, articles))
        self.tokens = open_tokens(self.snapshot, Activity(quiet=True))
        self.finder = OccurrenceFinder(self.snapshot, self.tokens)
        self.titles, self.texts = self.snapshot.titles_texts(0, len(self.snapshot))
        self.encoded = Wordpieces.default().encode(self.texts)

    def find(self, *answers: str, title: str | None = None, context: str | None = None) -> Occurrences:
        def candidates() -> list[int]:
            raise AssertionError("Texts are looked for in the whole corpus.")

        return self.finder.find(Question("Which?", answers, "string", title, context), candidates)

    def match(
        self, *expressions: str, rows: list[int], title: str | None = None, context: str | None = None
    ) -> Occurrences:
        return self.finder.find(Question("Which?", expressions, "regex", title, context), lambda: rows)

    def said(self, found: Occurrences) -> list[tuple[str, str]]:
        """(title, what the span reads) of each occurrence."""
        spans = zip(found.rows_O.tolist(), found.first_O.tolist(), found.last_O.tolist(), strict=True)
        return [(self.titles[row], self.span(row, first, last)) for row, first, last in spans]

    def span(self, row: int, first: int, last: int) -> str:
        """The span's text; one that cuts a word or leaves the block is an error."""
        words, offsets = self.encoded[row].words, self.encoded[row].offsets
        assert 0 <= first <= last < len(words)
        assert first == 0 or words[first] != words[first - 1]
        assert last == len(words) - 1 or words[last] != words[last + 1]
        return self.texts[row][offsets[first][0] : offsets[last][1]]


def random_texts(words: list[str], seed: int) -> dict[str, str]:
    """Fifty articles of a few sentences and one that makes several blocks, of few different words."""
    draw = random.Random(seed)

    def sentence() -> str:
        parts = [draw.choice(words) for _ in range(draw.randint(3, 9))]
        return " ".join(f"{draw.choice(ARTICLES)} {part}" if draw.random() < 0.3 else part for part in parts) + "."

    texts = {f"Article {i}": " ".join(sentence() for _ in range(draw.randint(1, 4))) for i in range(50)}
    return {**texts, "Long one": " ".join(sentence() for _ in range(150))}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    corpus = Corpus(tmp_path_factory.mktemp("plain"), random_texts(PLAIN, 1))
    assert len(corpus.snapshot) > 52
    return corpus


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(tmp_path_factory.mktemp("marked"), random_texts(MARKED + PLAIN[:3], 2))


# ── Texts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def runs(text: str, answer: list[str]) -> list[str]:
    """The text of each run of words that equals the answer, without articles and full stops, word by word."""
    words = [(word.lower().strip("."), start) for word, start in zip(text.split(), _starts(text), strict=True) if word]
    counting = [(word, start) for word, start in words if word not in ("a", "an", "the")]
    return [
        text[counting[i][1] : counting[i + len(answer) - 1][1] + len(answer[-1])]
        for i in range(len(counting) - len(answer) + 1)
        if [word for word, _ in counting[i : i + len(answer)]] == [word.lower() for word in answer]
    ]


def _starts(text: str) -> list[int]:
    return [0, *(place + 1 for place, character in enumerate(text) if character == " ")]


@settings(max_examples=examples(200))
@given(answer=st.lists(st.sampled_from(PLAIN), min_size=1, max_size=3), article=st.sampled_from(["", "the ", "An "]))
def test_among_plain_words_every_place_is_found_and_no_other(plain: Corpus, answer: list[str], article: str) -> None:
    found = plain.find(article + " ".join(answer))
    wanted = [said for text in plain.texts for said in runs(text, answer)]
    assert [said for _, said in plain.said(found)] == wanted
    holding = [row for row, text in enumerate(plain.texts) if holds_answer(text, [" ".join(answer)])]
    assert set(holding) <= set(found.blocks().tolist())
    assert len(wanted) == len(set(zip(found.rows_O.tolist(), found.first_O.tolist(), strict=True)))


def squeezed(text: str) -> str:
    return normalise_answer(text).replace(" ", "")


@settings(max_examples=examples(300))
@given(answer=st.lists(st.sampled_from([*MARKED, *PLAIN[:3], "the", "a"]), min_size=1, max_size=3))
def test_every_occurrence_reads_as_the_answer(marked: Corpus, answer: list[str]) -> None:
    wanted = " ".join(answer)
    for _, said in marked.said(marked.find(wanted)):
        assert squeezed(said) == squeezed(wanted)  # a space beside a mark makes no difference
        if said.replace(" ", "").isalnum() and wanted.replace(" ", "").isalnum():
            assert normalise_answer(said) == normalise_answer(wanted)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Each text is an article of its own."""
    texts = dict.fromkeys([text for text, *_ in (*CASES, *EXPRESSIONS)])
    return Corpus(tmp_path_factory.mktemp("cases"), {f"Case {number}": text for number, text in enumerate(texts)})


@pytest.mark.parametrize(("text", "answer", "said"), CASES)
def test_known_texts(cases: Corpus, text: str, answer: str, said: list[str]) -> None:
    title = cases.titles[cases.texts.index(text)]
    assert [span for _, span in cases.said(cases.find(answer, title=title))] == said


def test_an_answer_does_not_run_from_one_block_into_the_next(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path, {"One": "It was Stanley", "Two": "Kubrick and Stanley Kubrick"})
    assert corpus.said(corpus.find("Stanley Kubrick")) == [("Two", "Stanley Kubrick")]


def test_answers_are_found_each_and_kept_in_order(plain: Corpus) -> None:
    found = plain.find("Ada", "the Nile", "Phobos")
    assert found.rows_O.tolist() == sorted(found.rows_O.tolist())
    places = [(row, first) for row, first in zip(found.rows_O.tolist(), found.first_O.tolist(), strict=True)]
    assert places == sorted(places)
    alone = [plain.find(answer) for answer in ("Ada", "Nile", "Phobos")]
    assert len(found.rows_O) == sum(len(one.rows_O) for one in alone)


def test_of_an_answer_that_stands_everywhere_some_places_are_kept(
    plain: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere = plain.find("Ada")
    monkeypatch.setattr(occurrences_module, "_MOST", 10)
    some = plain.find("Ada")
    assert 5 <= len(some.rows_O) <= 10 < len(everywhere.rows_O)
    assert set(plain.said(some)) <= set(plain.said(everywhere))
    assert len(some.blocks()) > 4  # from all over the corpus


# ── Titles and contexts ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def rivers(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    texts = {
        "Nile": "The Nile flows through Egypt. " + "It is long. " * 90 + "Egypt uses its water.",
        "Suez Canal": "It lies in Egypt.  It is not in Egypt's south.",
        "Cairo": "Cairo is the capital of Egypt.",
    }
    corpus = Corpus(tmp_path_factory.mktemp("rivers"), texts)
    assert corpus.titles.count("Nile") == 2
    return corpus


def titles(corpus: Corpus, found: Occurrences) -> list[str]:
    return [title for title, _ in corpus.said(found)]


def test_a_question_that_names_its_article_is_answered_there(rivers: Corpus) -> None:
    assert sorted(titles(rivers, rivers.find("Egypt"))) == ["Cairo", "Nile", "Nile", "Suez Canal", "Suez Canal"]
    assert titles(rivers, rivers.find("Egypt", title="suez canal")) == ["Suez Canal"] * 2
    assert titles(rivers, rivers.find("Egypt", title="The Nile")) == ["Nile"] * 2
    assert titles(rivers, rivers.find("Egypt", title="Amazon River")) == []


def test_a_question_with_a_context_is_answered_within_it(rivers: Corpus) -> None:
    context = "Before.\nIt lies in Egypt. It is not in Egypt's south. Behind."  # white space is nothing
    for title in (None, "Suez Canal"):
        assert titles(rivers, rivers.find("Egypt", context=context, title=title)) == ["Suez Canal"] * 2
    assert titles(rivers, rivers.find("Egypt", context=context, title="Cairo")) == []
    assert titles(rivers, rivers.find("Egypt", context="It lies in Egypt.")) == []  # but a part of the block
    assert titles(rivers, rivers.find("Libya", context=context)) == []


def test_expressions_keep_to_article_and_context_too(rivers: Corpus) -> None:
    rows, cairo = list(range(len(rivers.texts))), rivers.texts[rivers.titles.index("Cairo")]
    assert set(titles(rivers, rivers.match("egy.t", rows=rows))) == {"Cairo", "Nile", "Suez Canal"}
    assert titles(rivers, rivers.match("egy.t", rows=rows, title="Nile")) == ["Nile"] * 2
    assert titles(rivers, rivers.match("egy.t", rows=rows, context=cairo)) == ["Cairo"]
    # an article that is named is searched whole, whatever a retriever thinks of it
    assert titles(rivers, rivers.match("egy.t", rows=[], title="Nile")) == ["Nile"] * 2


# ── Regular expressions ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("text", "expression", "said"), EXPRESSIONS)
def test_known_expressions(cases: Corpus, text: str, expression: str, said: list[str]) -> None:
    row = cases.texts.index(text)
    found = cases.match(expression, rows=[row])
    assert [span for _, span in cases.said(found)] == said


@settings(max_examples=examples(100))
@given(
    expressions=st.lists(
        st.sampled_from(["nile", r"ni\w", r"\d+", "the nile|ada", "(ni)?le", "x*", "s", r"\W10", "man"]),
        min_size=1,
        max_size=2,
    ),
    data=st.data(),
)
def test_what_an_expression_finds_it_matches(marked: Corpus, expressions: list[str], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(marked.texts) - 1), max_size=8))
    found = marked.match(*expressions, rows=rows)
    assert set(found.blocks().tolist()) <= set(rows)
    spans = list(zip(found.rows_O.tolist(), found.first_O.tolist(), found.last_O.tolist(), strict=True))
    assert spans == sorted(set(spans))
    for _, said in marked.said(found):
        assert regex_match(said, expressions)
    for row in rows:  # a match that is itself whole words is not missed
        offsets, words = marked.encoded[row].offsets, marked.encoded[row].words
        starts = {start: i for i, (start, _) in enumerate(offsets) if i == 0 or words[i] != words[i - 1]}
        ends = {end: i for i, (_, end) in enumerate(offsets) if i + 1 == len(words) or words[i] != words[i + 1]}
        for one in expressions:
            for start, end in answer_pattern(one).spans(marked.texts[row]):
                if start in starts and end in ends:
                    assert (row, starts[start], ends[end]) in spans


# ── Occurrences ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_occurrences_of_a_block_and_without_others() -> None:
    found = Occurrences(np.array([2, 2, 5, 9], np.int32), np.array([0, 4, 1, 7]), np.array([0, 5, 3, 7]))
    assert found.blocks().tolist() == [2, 5, 9]
    assert [part.tolist() for part in found.of(2)] == [[0, 4], [0, 5]]
    assert [part.tolist() for part in found.of(3)] == [[], []]
    excluded = np.zeros(10, np.bool_)
    excluded[[2, 3]] = True
    left = found.without(excluded)
    assert (left.rows_O.tolist(), left.first_O.tolist(), left.last_O.tolist()) == ([5, 9], [1, 7], [3, 7])


def test_all_questions_are_looked_up_and_expressions_ask_the_retriever(plain: Corpus) -> None:
    asked: list[str] = []

    def candidates(texts: Sequence[str]) -> list[list[int]]:
        asked.extend(texts)
        return [[number] for number, _ in enumerate(texts)]

    many = [
        Question("Who?", ("Ada",)),
        Question("First?", (r"\w+",), "regex"),
        Question("What?", ("polonium", "moons")),
        Question("Second?", (r"\w+",), "regex"),
        Question("Nobody?", ("nobody at all",)),
    ]
    found = find_all(many, plain.snapshot, plain.tokens, candidates, Activity(quiet=True))
    assert asked == ["First?", "Second?"]
    assert [one.blocks().tolist() for one, _ in found] == [
        plain.find("Ada").blocks().tolist(),
        [0],
        plain.find("polonium", "moons").blocks().tolist(),
        [1],
        [],
    ]
    first = found[1][1]
    assert first is not None and [expressions is None for _, expressions in found] == [True, False, True, False, True]
    with pytest.MonkeyPatch.context() as patch:  # more blocks may be looked at later, each of them once
        looked: list[int] = []
        search = first._search.find
        patch.setattr(first._search, "find", lambda question, rows: looked.extend(rows) or search(question, rows))
        assert first.within([3, 0, 2]).blocks().tolist() == first.within([0, 2, 3]).blocks().tolist() == [0, 2, 3]
    assert looked == [2, 3]
    assert first.within([]).blocks().tolist() == []


def test_it_can_be_stopped(plain: Corpus) -> None:
    with pytest.raises(Stopped):
        find_all([Question("Who?", ("Ada",))], plain.snapshot, plain.tokens, lambda _: [], Stopping(0))


def test_the_questions_of_the_tiny_corpus_stand_where_they_should(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path, {})  # the dozen articles of the tiny deployment
    for _, answer, title in QUESTIONS:
        assert corpus.said(corpus.find(answer)) == [(title, answer.removeprefix("the "))]
