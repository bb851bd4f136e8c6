"""Records of tiny things to work on: a corpus of towns, its model, index, spans and questions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from realm_core.index.build import build
from realm_core.runs.activity import Activity
from tests.core.training.towns import COUNT, TEXTS, Towns
from tests.tiny import tiny_deployment, tiny_model
from webapp.artefacts.registering import record_corpus, record_index, record_model, record_spans
from webapp.deployments.service import deploy
from webapp.models import CorpusSnapshot, IndexGeneration, ModelVersion, Purpose, QuestionSet, SpanSet
from webapp.questions import service as questions

QUICK = {"steps": 4, "batch": 2, "at_once": 2, "checkpoint_every": 2, "holdout": 0.0}
_LEARNT = range(COUNT - 8)


@dataclass(frozen=True)
class Work:
    """Records that fit together."""

    model: ModelVersion
    corpus: CorpusSnapshot
    index: IndexGeneration
    spans: SpanSet
    learn: QuestionSet
    measure: QuestionSet


def question(number: int) -> dict[str, object]:
    """Of one of the towns, named as the question's own."""
    year = TEXTS[f"Town {number}"].split("In ")[1][:4].strip()
    return {"question": f"When did something burn in town {number}?", "answers": [year], "title": f"Town {number}"}


def lines(numbers: range) -> bytes:
    """A question file."""
    return "".join(json.dumps(question(number)) + "\n" for number in numbers).encode()


def record_work(towns: Towns) -> Work:
    """Record what `make_towns` made, and questions to learn from and to measure by."""
    corpus, model = record_corpus(towns.corpus), record_model(towns.model, name="towns")
    index = record_index(towns.index)
    spans = record_spans(towns.spans, corpus=corpus, tagger="dates", counts={"spans": 2 * COUNT, "blocks": COUNT})
    return Work(
        model,
        corpus,
        index,
        spans,
        questions.record(lines(_LEARNT), "some", Purpose.LEARN),
        questions.record(lines(range(COUNT - 8, COUNT)), "others", Purpose.MEASURE),
    )


def source(folder: Path, articles: int) -> Path:
    """A file of articles to ingest."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "villages.jsonl"
    rows = [{"id": f"v{i}", "title": f"Village {i}", "text": f"Village {i} has {i} people."} for i in range(articles)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def deployed_pair(folder: Path) -> IndexGeneration:
    """The tiny deployment, recorded and deployed."""
    model, index, corpus = tiny_deployment(folder)
    record_corpus(corpus)
    pair = record_index(index, model=record_model(model))
    deploy(pair)
    return pair


def rival_of(pair: IndexGeneration, folder: Path) -> IndexGeneration:
    """An index of the same corpus by another model, recorded."""
    model, corpus = tiny_model(folder, seed=1), folder / pair.corpus.path
    built = build(model, corpus, folder / "indexes", Activity(quiet=True), device="cpu")
    return record_index(built, model=record_model(model))
