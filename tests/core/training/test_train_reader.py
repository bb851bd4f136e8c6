"""Reading comprehension: rows, casual questions, and a reader that learns where a block answers and where not."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.index.generation import Generation
from realm_core.index.retriever import DenseRetriever
from realm_core.model.checkpoint import load_model, save_model
from realm_core.model.config import ModelConfig
from realm_core.model.marginal import log_pair_reading, log_reading, pair_divergence
from realm_core.model.pairs import collate
from realm_core.questions.answers import holds_answer, normalise_answer
from realm_core.questions.casual import casually
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.mine import cut_around
from realm_core.training.reading_rows import ReadingRow, example_of, read_rows
from tests.core.running import activity_of, metrics
from tests.core.training.material import write_lines
from tests.tiny import ARTICLES, tiny_deployment, tiny_model

QUESTION = "Who directed 2001: A Space Odyssey?"
SETTINGS = ("steps=60", "batch=8", "reader_lr=3e-3", "head_lr=3e-3", "dropout=0.0", "holdout=0.0", "warmup=0.0")


def colour_rows() -> list[dict[str, object]]:
    """Red things are answered, others are not here."""
    things = ("tower", "bridge", "castle", "church", "mill", "market", "school", "harbour")
    red = [
        {"question": "what is red", "title": "", "context": f"The red one is a {t}.", "answers": [t]} for t in things
    ]
    blue = [
        {"question": "what is red", "title": "", "context": f"The blue one is a {t}.", "answers": []} for t in things
    ]
    return [*red, *blue]


def arguments(model: Path, output: Path, *settings: str, rows: Path | None = None) -> list[str | Path]:
    """Of `train-reader`; without `rows` it learns the colours."""
    sets = [word for one in (*SETTINGS, *settings) for word in ("--set", one)]
    rows = rows or write_lines(output.parent / "rows.jsonl", colour_rows())
    return ["--model", model, "--rows", rows, "--device", "cpu", *sets, "--output", output]


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that has learnt the colours, `made`, the one before it, and its `run`."""
    folder = tmp_path_factory.mktemp("reader")
    activity_of("train-reader", arguments(tiny_model(folder), folder / "made", "steps=100"), run=folder / "run")
    return folder


def test_the_reader_learns_to_answer_and_to_say_not_here(learnt: Path) -> None:
    losses = list(metrics(learnt / "run", "train-reader.loss").values())
    assert losses[-1] < 0.5 * losses[0]
    before, after = load_model(tiny_model(learnt)), load_model(learnt / "made")
    assert after.config.normalisation == "block+null"
    assert after.block_hash == before.block_hash  # indexes stay right
    assert torch.equal(after.query.dense.weight, before.query.dense.weight)
    assert torch.equal(
        after.reader.bert.embeddings.word_embeddings.weight, before.reader.bert.embeddings.word_embeddings.weight
    )


def test_the_same_rows_and_settings_give_the_same_weights(tmp_path: Path) -> None:
    model = tiny_model(tmp_path)
    for name in ("one", "other"):
        activity_of("train-reader", arguments(model, tmp_path / name, "steps=5", "dropout=0.1"))
    assert load_model(tmp_path / "one").hash == load_model(tmp_path / "other").hash


def test_frozen_layers_stay(tmp_path: Path) -> None:
    model = tiny_model(tmp_path)
    activity_of("train-reader", arguments(model, tmp_path / "made", "steps=2", "frozen_layers=1"))
    before, after = (load_model(path).reader.bert.layers for path in (model, tmp_path / "made"))
    assert torch.equal(before[0].output.dense.weight, after[0].output.dense.weight)
    assert not torch.equal(before[1].output.dense.weight, after[1].output.dense.weight)
    with pytest.raises(RealmError, match="frozen_layers"):
        activity_of("train-reader", arguments(model, tmp_path / "none", "frozen_layers=2"))


def test_a_trained_model_does_not_keep_the_earlier_confidence(tmp_path: Path) -> None:
    """It was fitted to what other weights said."""
    model = load_model(tiny_model(tmp_path))
    config = replace(model.config, confidence_slope=0.9, confidence_offset=2.0, confidence_margin=0.1)
    save_model(replace(model, config=config), tmp_path / "calibrated")
    activity_of("train-reader", arguments(tmp_path / "calibrated", tmp_path / "made", "steps=1"))
    made = load_model(tmp_path / "made").config
    assert made == replace(config.uncalibrated(), normalisation="block+null")
    assert (made.confidence_slope, made.confidence_offset, made.confidence_margin) == (1.0, 0.0, 0.0)


def test_a_pair_is_read_as_under_block_and_null() -> None:
    logits_PS = torch.tensor([[1.0, -math.inf, 0.5], [2.0, 0.0, -math.inf], [-math.inf] * 3])
    correct_PS = torch.tensor([[True, False, True], [False] * 3, [False] * 3])
    _, likelihood, null = log_reading(logits_PS.unsqueeze(1), torch.zeros(3, 1), "block+null")
    assert null is not None
    answered = likelihood[0, 0, [0, 2]].exp().sum().log()
    assert torch.allclose(log_pair_reading(logits_PS, correct_PS), torch.stack([answered, null[1, 0], null[2, 0]]))


def test_a_pupil_becomes_its_teacher(learnt: Path, tmp_path: Path) -> None:
    """Trained on the probabilities of another reader alone, without answers, it approaches that reader."""
    teacher = learnt / "made"
    # Rows without answers, so that it can learn from the teacher alone.
    wrong = write_lines(tmp_path / "wrong.jsonl", [{**row, "answers": []} for row in colour_rows()])
    taught = arguments(tiny_model(learnt), tmp_path / "pupil", "steps=80", "teacher_share=1", rows=wrong)
    activity_of("train-reader", [*taught, "--teacher", teacher])
    said, repeated = (
        list(map(normalise_answer, _best_of(one, colour_rows()))) for one in (teacher, tmp_path / "pupil")
    )
    assert sum(map(bool, said)) == 8
    assert sum(one == other for one, other in zip(repeated, said, strict=True)) >= 15


def _best_of(model: Path, rows: list[dict[str, object]]) -> list[str]:
    """What the reader says of each row: the best span's text, empty for "not here"."""
    loaded, said = load_model(model), []
    for row in rows:
        example = example_of(
            ReadingRow(str(row["question"]), "", str(row["context"]), ()), loaded.config, Wordpieces.default()
        )
        assert example is not None
        with torch.no_grad():
            logits_NM = loaded.reader(*collate([example.pair]))
        first, extent = divmod(int(logits_NM.argmax()), logits_NM.shape[1])
        span = slice(example.pair.offsets[first][0], example.pair.offsets[first + extent][1])
        said.append(str(row["context"])[span] if logits_NM.max() > 0 else "")
    return said


def test_the_teacher_reads_the_question_as_it_is_written() -> None:
    row = ReadingRow("Who wrote it?", "", "Ann wrote it.", ("Ann",), typed="wrote it")
    example = example_of(row, ModelConfig(), Wordpieces.default())
    assert example is not None and len(example.pair.ids) < len(example.written.ids)
    assert example.pair.offsets == example.written.offsets


def test_divergence_is_that_of_the_whole_distributions() -> None:
    teacher, student = torch.tensor([[1.0, -math.inf, 0.5]]), torch.tensor([[0.2, -math.inf, -2.0]])
    t, s = (torch.softmax(torch.tensor([a[0, 0], a[0, 2], 0.0]).double(), 0) for a in (teacher, student))
    assert pair_divergence(teacher, student).item() == pytest.approx(float((t * (t / s).log()).sum()), rel=1e-5)
    assert pair_divergence(teacher, teacher).item() == pytest.approx(0.0, abs=1e-6)


def test_malformed_rows_are_refused(tmp_path: Path) -> None:
    good: dict[str, object] = {"question": "q", "title": "t", "context": "c", "answers": []}
    for bad, says in (({"answers": "c"}, "answers"), ({"context": ""}, "context"), ({"title": 3}, "title")):
        with pytest.raises(RealmError, match=rf"rows\.jsonl, line 2: `{says}`"):
            read_rows(write_lines(tmp_path / "rows.jsonl", [good, {**good, **bad}]))
    (tmp_path / "rows.jsonl").write_text("\n")
    with pytest.raises(RealmError, match="holds no rows"):
        read_rows(tmp_path / "rows.jsonl")


def test_an_answer_that_is_not_read_makes_no_example() -> None:
    row = ReadingRow("q", "", "one two three", ("four",))
    assert example_of(row, ModelConfig(), Wordpieces.default()) is None
    found = example_of(ReadingRow("q", "", "one two three two", ("two",)), ModelConfig(), Wordpieces.default())
    assert found is not None and found.spans == {(1, 1), (3, 3)}


@given(st.integers(0, 10_000))
def test_casual_questions_keep_something_to_ask(seed: int) -> None:
    typed = casually(QUESTION, random.Random(seed))
    assert typed == typed.lower() and typed.strip() and "?" not in typed
    assert typed == casually(QUESTION, random.Random(seed))


def test_casual_questions_are_of_all_kinds() -> None:
    typed = {casually(QUESTION, random.Random(seed)) for seed in range(200)}
    assert "who directed 2001: a space odyssey" in typed and "directed 2001: space odyssey" in typed
    assert len(typed) > 50


@given(st.integers(0, 1000), st.integers(20, 200))
def test_a_passage_is_cut_to_whole_sentences_around_an_answer(seed: int, window: int) -> None:
    text = "The first one is long enough. Here stands Thimphu in the middle. A third one follows. The last one ends it."
    cut = cut_around(text, ("Thimphu",), window, random.Random(seed))
    assert cut in text and holds_answer(cut, ("Thimphu",)) and cut.endswith(".")
    assert len(cut) <= max(window, len("Here stands Thimphu in the middle."))


def test_questions_are_set_against_blocks_that_answer_and_that_do_not(tmp_path: Path) -> None:
    model, index, corpus = tiny_deployment(tmp_path)
    asked = [
        {"question": "What is the capital of Bhutan?", "answers": ["Thimphu"], "title": "Bhutan"},
        {"question": "Where was Marie Curie born?", "answers": ["War[a-z]+"], "answer_type": "regex"},
        {"question": "When did it open?", "answers": ["1869"], "title": "Canal", "context": "It opened in 1869. So."},
        {"question": "Which planet has two moons?", "answers": ["Mars"]},
    ]
    for name, rows in (("some.jsonl", asked), ("left-out.jsonl", asked[3:])):
        write_lines(tmp_path / name, rows)
    sets = ["--set", "not_here=0.999999", "--set", "false_premise=0.999999"]
    options = ["--model", model, "--index", index, "--corpus", corpus, "--questions", tmp_path / "some.jsonl"]
    activity_of(
        "mine", [*options, "--without", tmp_path / "left-out.jsonl", "--output", tmp_path / "made.jsonl", *sets]
    )
    made = read_rows(tmp_path / "made.jsonl")
    right = {(row.question, row.context, row.answers) for row in made if row.answers}
    assert right == {
        ("What is the capital of Bhutan?", ARTICLES["Bhutan"], ("Thimphu",)),
        ("Where was Marie Curie born?", ARTICLES["Marie Curie"], ("Warsaw",)),
        ("When did it open?", "It opened in 1869. So.", ("1869",)),
    }
    wrong = [row for row in made if not row.answers]
    assert wrong and not any("Thimphu" in row.context and "Bhutan" in row.question for row in wrong)
    exchanged = {row.question for row in wrong} - {normal["question"] for normal in asked}
    assert all(question.startswith("What is the capital of ") for question in exchanged)
    assert not any(normalise_answer("Which planet has two moons?") == normalise_answer(row.question) for row in made)
    with pytest.raises(RealmError, match="exists already"):
        activity_of("mine", [*options, "--output", tmp_path / "made.jsonl"])


def test_the_reader_chooses_the_block_that_answers(tmp_path: Path) -> None:
    """Two blocks say Egypt; taken is the one with the higher posterior, as the engine tells it, or none."""
    model, index, corpus = tiny_deployment(tmp_path)
    question = "Through which country does it flow?"
    asked = write_lines(tmp_path / "asked.jsonl", [{"question": question, "answers": ["Egypt"]}])
    options = ["--model", model, "--index", index, "--corpus", corpus, "--questions", asked]

    def mined(name: str, agreement: float) -> list[ReadingRow]:
        sets = [f"agreement={agreement}", "candidates=12", "read=12", "not_here=0.99999"]
        activity_of("mine", [*options, *(w for one in sets for w in ("--set", one)), "--output", tmp_path / name])
        return [row for row in read_rows(tmp_path / name) if row.answers]

    loaded = load_model(model)
    rows, scores = DenseRetriever(loaded, Generation.open(index)).search([question], len(ARTICLES))
    snapshot, offers = Snapshot.open(corpus), {}
    for row, score in zip(rows[0], scores[0], strict=True):
        block = snapshot.block(row)
        if "Egypt" in block.text:
            example = example_of(
                ReadingRow(question, block.title, block.text, ("Egypt",)), loaded.config, Wordpieces.default()
            )
            assert example is not None
            with torch.no_grad():
                logits = loaded.reader(*collate([example.pair])).double()
            right = sum(math.exp(logits[first, last - first]) for first, last in example.spans)
            offers[block.title] = math.exp(score) * right / (1 + float(logits.exp().sum()))
    assert len(offers) == 2
    assert [row.title for row in mined("agreed.jsonl", 1e-9)] == [max(offers, key=lambda title: offers[title])]
    assert mined("none.jsonl", 0.999) == []


def test_a_question_without_an_answer_is_set_against_what_is_retrieved(tmp_path: Path) -> None:
    model, index, corpus = tiny_deployment(tmp_path)
    asked = [
        {"question": "What is the population of Bhutan?", "answers": [], "title": "Bhutan"},
        {"question": "Where are my keys?", "answers": []},
    ]
    write_lines(tmp_path / "none.jsonl", asked)
    write_lines(tmp_path / "some.jsonl", [{"question": "Who?", "answers": ["Bach"]}])
    options = ["--model", model, "--index", index, "--corpus", corpus, "--questions", tmp_path / "some.jsonl"]
    sets = ["--set", "read=12", "--set", "unanswerable_blocks=12", "--set", "not_here=0", "--set", "depth=12"]
    more = ["--unanswerable", tmp_path / "none.jsonl", "--output", tmp_path / "made.jsonl"]
    activity_of("mine", [*options, *more, *sets])
    wrong = [row for row in read_rows(tmp_path / "made.jsonl") if not row.answers]
    assert [row.title for row in wrong if "Bhutan" in row.question] == ["Bhutan"]
    assert {row.title for row in wrong if "keys" in row.question} == set(ARTICLES)
    left_out = ["--without", tmp_path / "none.jsonl", "--output", tmp_path / "rest.jsonl"]
    activity_of("mine", [*options, *more[:2], *left_out, *sets])
    assert all(row.answers for row in read_rows(tmp_path / "rest.jsonl"))
    with pytest.raises(RealmError, match="`answers` must be an empty list"):
        bad = ["--unanswerable", tmp_path / "some.jsonl", "--output", tmp_path / "other.jsonl"]
        activity_of("mine", [*options, *bad, *sets])
