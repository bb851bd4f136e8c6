"""Measure a model on questions: `python -m realm_core evaluate`.

    main → questions, model, retriever → predictions, batch by batch → figures

Exact match, recall of the blocks, calibration and time; and how many questions are answered that have no answer
(`"answers": []`). Predictions are appended to a file (`--predictions`, or in the
run folder), and the same command run again resumes after the last. Retrieval is the model's own (`dense`) or BM25 with
the same reader, the baseline that needs no index.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import torch

from realm_core.corpus.store import Snapshot, verify_files
from realm_core.errors import RealmError
from realm_core.evaluation.answering_code import answering_code
from realm_core.evaluation.chart import check_plot, reliability_diagram
from realm_core.evaluation.figures import summarise
from realm_core.evaluation.predicting import Predictor
from realm_core.evaluation.predictions import CODE, WHY, Header, Prediction, PredictionFile, read_predictions
from realm_core.evaluation.retrieving import EngineRetrieving, Retrieving, SparseRetrieving
from realm_core.evaluation.tasks import Evaluate
from realm_core.files import sha256_of_file
from realm_core.index.bm25 import SparseRetriever
from realm_core.index.corpus_of import corpus_of
from realm_core.living.present import with_edits
from realm_core.model.checkpoint import Model, load_model, weighted
from realm_core.model.config import Normalisation
from realm_core.model.device import pick_device
from realm_core.model.tasks import OWN
from realm_core.questions.question_file import Question, read_questions
from realm_core.runs.activity import Activity
from realm_core.serving.corpus import open_corpus
from realm_core.serving.reading import BlockReading

_ROWS: Final = 100  # of metrics, for any number of questions: enough for a curve


def main(task: Evaluate, activity: Activity) -> None:
    """Ask all questions and print the figures."""
    if task.index is None or task.retriever != "dense":
        _measure(task, activity)
        return
    with with_edits(task.index, task.corpus, task.state, task.living, activity.run, activity) as searched:
        _measure(task.model_copy(update=vars(searched)), activity)


def _measure(task: Evaluate, activity: Activity) -> None:
    if task.plot:
        check_plot(task.plot)
    questions = _sample(_questions(task.questions), task.sample)
    activity.progress(0, len(questions), "questions", "loading model and index")  # which takes seconds
    parts = _load(task, activity)
    score_scale = task.score_scale if task.retriever == "bm25" else 1.0
    as_typed = task.as_typed or task.retriever != "dense"
    predictor = Predictor(
        parts.retriever,
        parts.reading,
        parts.snapshot,
        k=task.k or parts.k,
        normalisation=parts.normalisation,
        score_scale=score_scale,
        why=task.why,
        as_typed=as_typed,
    )
    header = Header(
        identity={
            "model": parts.model_hash,
            "index": parts.index,
            "corpus": parts.corpus,
            "retriever": task.retriever,
            "score_scale": score_scale,
            "k": task.k or parts.k,
            "normalisation": parts.normalisation,
            "questions": sha256_of_file(task.questions),
            # Files begun by earlier versions have no weight, and are continued.
            **({"lexical_weight": parts.lexical_weight} if parts.lexical_weight else {}),
            **({} if as_typed else {"spelling": True}),  # likewise, files begun by earlier versions have none
            **({} if task.sample == 0 else {"sample": len(questions)}),
            **({WHY: True} if task.why else {}),
            CODE: answering_code(),
        },
        model=parts.name,
        questions=task.questions.stem,
        n=len(questions),
    )
    path = task.predictions or (activity.run / "predictions.jsonl" if activity.run else None)

    def watched(first: int) -> Iterator[Prediction]:
        activity.progress(first, len(questions), "questions")
        so_far = _RunningFigures(len(questions), activity)
        for earlier in islice(read_predictions(path), first) if path is not None else ():
            so_far.count(earlier)
        for number, prediction in enumerate(predictor.predictions(questions, first=first), start=first + 1):
            yield prediction
            so_far.count(prediction)
            so_far.say()
            activity.progress(number, len(questions), "questions")
            activity.check()

    if path is None:
        figures = summarise(watched(0))
    else:
        with PredictionFile(path, header) as file:
            if file.begun_anew:
                activity.say("What was predicted by other code, or with other causes, is predicted again.")
            if file.count:
                activity.say(f"Resuming after {file.count:,} of {len(questions):,} questions.")
            file.extend(watched(file.count))
        figures = summarise(read_predictions(path))
    result = {"model": header.model, "questions": header.questions, **figures.as_dict(), "of": header.identity}
    if task.as_json:
        print(json.dumps(result, indent=1, ensure_ascii=False))
    else:
        for name, value in result.items():
            if value is not None and not isinstance(value, list | dict):
                print(f"{name:20} {value:.4g}" if isinstance(value, float) else f"{name:20} {value}")
        for cause, count in (figures.causes or {}).items():
            print(f"{cause:20} {count:<7,} {count / figures.n:.1%}")
    if task.plot:
        title = f"{header.model} on {header.questions}"
        reliability_diagram(task.plot, figures.reliability, title=title, error=figures.ece)
    activity.result(result)


class _RunningFigures:
    """Running exact match and recall at 5, reported about `_ROWS` times as rows of metrics."""

    def __init__(self, of: int, activity: Activity) -> None:
        self._of, self._every, self._activity = of, -(-of // _ROWS), activity
        self._asked = self._right = self._answerable = self._found = 0

    def count(self, prediction: Prediction) -> None:
        self._asked += 1
        self._right += prediction.right
        self._answerable += prediction.is_answerable
        self._found += prediction.found_within(5)

    def say(self) -> None:
        """Report a row if it is due."""
        if self._asked % self._every == 0 or self._asked == self._of:
            recall = self._found / max(1, self._answerable)
            shares = {"exact_match": self._right / self._asked, "recall@5": recall}
            self._activity.metrics(self._asked, **{f"evaluate.{name}": share for name, share in shares.items()})


@dataclass(frozen=True)
class _Loaded:
    """A model, a corpus and a retriever that fit together."""

    retriever: Retrieving
    reading: BlockReading
    snapshot: Snapshot
    normalisation: Normalisation
    name: str
    model_hash: str | None
    index: str
    corpus: str
    lexical_weight: float
    k: int


def _questions(path: Path) -> list[Question]:
    questions = read_questions(path, answerable=None)
    for number, question in enumerate(questions, start=1):
        try:
            "".join([question.question, *question.answers]).encode()
        except UnicodeEncodeError:
            raise RealmError(f"{path}, question {number}: it holds a lone surrogate.") from None
    return questions


def _sample(questions: list[Question], size: int) -> list[Question]:
    """A sample of this size (0: all), chosen by a hash of each question, in the original order.

    A smaller sample is a subset of a larger one, and adding questions to a file changes few of the chosen ones.
    """
    if size == 0:
        return questions
    drawn = sorted(range(len(questions)), key=lambda i: hashlib.sha256(questions[i].question.encode()).digest())
    return [questions[i] for i in sorted(drawn[:size])]


def _load(task: Evaluate, activity: Activity) -> _Loaded:
    if task.model is None:
        raise RealmError("--model must name a model folder.")
    device = pick_device(task.device)
    corpus_folder = corpus_of(task.index, task.corpus)
    snapshot = Snapshot.open(corpus_folder)
    if len(snapshot) == 0:
        raise RealmError(f"{corpus_folder} holds no blocks; there is nothing to read.")
    model = weighted(load_model(task.model), task.lexical_weight)
    for part in (model.query, model.reader):
        part.for_inference(device)
    retriever, index = _retriever(task, model, snapshot, device, activity)
    name = str((model.about or {}).get("name", task.model.name))
    weight = model.config.lexical_weight if task.retriever == "dense" else 0.0
    corpus = f"{snapshot.manifest['name']}@{snapshot.snapshot_id}"
    config = model.config.at(snapshot.origin)
    reading = BlockReading(model.reader, config, model=f"{name}@{model.hash}", index=index, corpus=corpus)
    normalisation = model.config.normalisation if task.normalisation == OWN else task.normalisation
    if normalisation not in model.config.normalisations:
        raise RealmError(f"{task.model} cannot be read by {normalisation}: it has no score of “not here”.")
    return _Loaded(retriever, reading, snapshot, normalisation, name, model.hash, index, corpus, weight, config.k)


def _retriever(
    task: Evaluate, model: Model, snapshot: Snapshot, device: torch.device, activity: Activity
) -> tuple[Retrieving, str]:
    """(the retriever, its name where a generation's name would be); the snapshot's files are verified."""
    if task.retriever == "bm25":
        verify_files(snapshot.folder)
        activity.say("Preparing BM25's index.")
        return SparseRetrieving(SparseRetriever(snapshot, task.bm25_cache), snapshot), "bm25"
    assert task.index is not None
    corpus, index = open_corpus(model, task.index, snapshot.folder, None, device, "exact")
    return EngineRetrieving(model, corpus), index
