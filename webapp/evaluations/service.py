"""Two models on the same questions: existing evaluations, missing ones, and where the models differ.

Two evaluations are comparable if question set, sample, k and retriever are the same. The corpora may differ, because
the questions are the same. Where two models are judged by them, documents were not edited in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from django.contrib.auth.models import User
from django.db.models import Q

from realm_core.corpus.tasks import origin_of
from realm_core.errors import RealmError
from realm_core.evaluation.predictions import Prediction
from realm_core.evaluation.significance import Difference, paired_difference
from realm_core.files import read_json
from realm_core.model.config import ModelConfig
from realm_core.model.tasks import OWN
from webapp.evaluations.kept import kept_predictions
from webapp.jobs import service as jobs
from webapp.models import (
    CorpusSnapshot,
    CorpusState,
    Evaluation,
    IndexGeneration,
    Job,
    JobKind,
    ModelVersion,
    Purpose,
    QuestionSet,
)
from webapp.models.job import ACTIVE
from webapp.storage.places import resolve

QUICK_SAMPLE: Final = 200  # questions of a quick evaluation: about a minute on two cores


@dataclass(frozen=True)
class Candidate:
    """A model over a corpus that can be deployed."""

    model: ModelVersion
    corpus: CorpusSnapshot

    def index(self) -> IndexGeneration | None:
        """The newest index of the corpus that the model can search, if there is one."""
        same = IndexGeneration.objects.filter(corpus=self.corpus, model__block_hash=self.model.block_hash)
        return same.select_related("model", "corpus").first()

    def state_id(self) -> str:
        """The corpus state that a question is asked of now, as evaluations name it."""
        index = self.index()
        state = None if index is None else index.state_now()
        return "" if state is None else state.measured_as

    def states_before_folds(self) -> Iterator[CorpusState]:
        index = self.index()
        yield from () if index is None else index.states_before_folds()


class Differ(StrEnum):
    """How two models can differ on a question."""

    FIRST = "first"  # only the first is right
    SECOND = "second"  # only the second is right
    ANSWER = "answer"  # both are right or both are wrong, with different answers


@dataclass(frozen=True)
class Pair:
    """The predictions of both for one question."""

    first: Prediction
    second: Prediction

    @property
    def differ(self) -> Differ | None:
        """How they differ, None if they do not."""
        if self.first.right != self.second.right:
            return Differ.FIRST if self.first.right else Differ.SECOND
        return Differ.ANSWER if self.first.prediction != self.second.prediction else None


def measured(candidate: Candidate, *, questions: QuestionSet | None = None) -> Iterator[Evaluation]:
    """Evaluations of the model as it answers (own retriever, own normalisation), the newest first.

    A fold leaves the answers as they are: what was measured over an index just as it was folded counts for the new one.
    """
    where = Q(corpus=candidate.corpus)
    for state in candidate.states_before_folds():
        where |= Q(corpus=state.index.corpus_id, state_id=state.measured_as)
    found = Evaluation.objects.filter(where, model=candidate.model, retriever="dense")
    if questions is not None:
        found = found.filter(questions=questions)
    own = {OWN, own_normalisation(candidate.model)}
    related = found.select_related("questions", "model", "corpus", "index__folded_into")
    for evaluation in related.order_by("-created_at", "-pk"):
        if evaluation.normalisation in own:
            yield evaluation


def measured_alike(first: Candidate, second: Candidate) -> list[tuple[Evaluation, Evaluation]]:
    """For each question set that both were asked, the newest comparable pair with the most questions."""
    best: dict[int, tuple[Evaluation, Evaluation]] = {}
    theirs = list(measured(second))
    for one in measured(first):
        for other in theirs:
            known = best.get(one.questions_id)
            if why_not_comparable(one, other) or edited_between(one, other):
                continue
            if known is None or known[0].asked < one.asked:
                best[one.questions_id] = (one, other)
    return sorted(best.values(), key=lambda pair: pair[0].questions.name)


def latest_figures(model: ModelVersion) -> list[Evaluation]:
    """The model's own figures on whole question sets, read as a question is: the newest of each set, newest first.

    Without evaluations of BM25, of a sample, of another k or normalisation, which would be mistaken for the model's own
    figures. Reads `evaluations`, which callers with many models have prefetched.
    """
    own = {OWN, own_normalisation(model)}
    newest: dict[int, Evaluation] = {}
    for one in model.evaluations.all():
        reads = (one.retriever, one.k, one.drawn) == ("dense", own_k(model, one.corpus), 0)
        if reads and one.normalisation in own:
            newest.setdefault(one.questions_id, one)
    return list(newest.values())


def own_normalisation(model: ModelVersion) -> str:
    """The model's own normalisation, from its folder; empty if that cannot be read."""
    config = _config(model)
    return "" if config is None else config.normalisation


def own_k(model: ModelVersion, corpus: CorpusSnapshot) -> int:
    """The number of blocks that the model reads over a corpus; the usual one if the model's folder is away."""
    origin = origin_of({"source": corpus.source, "language": corpus.language, "name": corpus.name})
    return (_config(model) or ModelConfig()).at(origin).k


def _reads_own_k(evaluation: Evaluation) -> bool:
    return evaluation.k == own_k(evaluation.model, evaluation.corpus)


def _config(model: ModelVersion) -> ModelConfig | None:
    path = resolve(model.path) / "config.json"
    try:
        return ModelConfig.from_dict(read_json(path)["model"], str(path))
    except (RealmError, KeyError, TypeError):
        return None


def why_not_comparable(first: Evaluation, second: Evaluation) -> str:
    """The reason, in a sentence; empty if they can be compared."""
    if first.questions_id != second.questions_id:
        return f"They were asked different questions: {first.questions.name} and {second.questions.name}."
    if first.drawn != second.drawn:
        return "They were asked different samples of the questions."
    if first.retriever != second.retriever:
        return f"They used different retrievers: {first.retriever} and {second.retriever}."
    # Of corpora with other calibrations a model reads other numbers of blocks: then each answers as it would deployed.
    if first.k != second.k and not (_reads_own_k(first) and _reads_own_k(second)):
        return f"They read a different number of blocks: {first.k} and {second.k}."
    return ""


def edited_between(first: Evaluation, second: Evaluation) -> bool:
    """Whether documents were edited between them, so that a difference is not the models' alone."""
    corpus, state_id = asked_of(first)
    other, other_state_id = asked_of(second)
    return corpus == other and state_id != other_state_id


def upgraded_between(first: Evaluation, second: Evaluation) -> bool:
    """Whether different versions of the program have answered, so that a difference is not the models' alone."""
    return first.code != second.code


def asked_of(evaluation: Evaluation) -> tuple[int, str]:
    """The corpus (its key) and the state that were asked, or the equal ones that folds made of them since."""
    if evaluation.index is None:
        return evaluation.corpus_id, evaluation.state_id
    index, state_id = evaluation.index.state_after_folds(evaluation.state_id)
    return index.corpus_id, state_id


def difference(first: Evaluation, second: Evaluation) -> Difference:
    """Exact match of the second minus that of the first, with its interval; RealmError if it cannot be computed."""
    return paired_difference((pair.first.right, pair.second.right) for pair in pairs(first, second))


def pairs(first: Evaluation, second: Evaluation) -> Iterator[Pair]:
    """Both predictions for each question, in order. RealmError if the questions are not the same."""
    if reason := why_not_comparable(first, second):
        raise RealmError(reason)
    theirs = kept_predictions(second)
    for one in kept_predictions(first):
        other = next(theirs, None)
        if other is None or other.question != one.question:
            raise RealmError(f"The predictions of {first} and {second} are not of the same questions.")
        yield Pair(one, other)


@dataclass(frozen=True)
class Comparison:
    """Two evaluations side by side. counts: the number of differences by kind."""

    difference: Difference
    counts: dict[Differ, int]
    shown: list[Pair]


def compare(first: Evaluation, second: Evaluation, show: Differ | None) -> Comparison:
    """Compare two evaluations; `show` selects the questions to show (None: those on which only one is right)."""
    counts = dict.fromkeys(Differ, 0)
    outcomes: list[tuple[bool, bool]] = []
    shown: list[Pair] = []
    for pair in pairs(first, second):
        outcomes.append((pair.first.right, pair.second.right))
        how = pair.differ
        if how is None:
            continue
        counts[how] += 1
        if how is show or (show is None and how is not Differ.ANSWER):
            shown.append(pair)
    return Comparison(paired_difference(outcomes), counts, shown)


def find(candidate: Candidate, questions: QuestionSet, sample: int) -> Evaluation | None:
    """The newest evaluation of a candidate, over the corpus as it is now, with as many blocks as a question reads."""
    now, reads = (candidate.corpus.pk, candidate.state_id()), own_k(candidate.model, candidate.corpus)
    for evaluation in measured(candidate, questions=questions):
        if (evaluation.drawn, evaluation.k) == (questions.drawn(sample), reads) and asked_of(evaluation) == now:
            return evaluation
    return None


def evaluations_under_way(candidates: Iterable[Candidate]) -> list[Job]:
    """The queued or running evaluations of these candidates."""
    jobs = list(Job.objects.filter(kind=JobKind.EVALUATE, state__in=ACTIVE).defer("log", "result"))
    indexes = IndexGeneration.every.in_bulk({job.parameters.get("index") for job in jobs} - {None})
    wanted = {(one.model.pk, one.corpus.pk) for one in candidates}
    return [
        job
        for job in jobs
        if (index := indexes.get(job.parameters.get("index"))) is not None
        and (job.parameters.get("model") or index.model_id, index.corpus_id) in wanted
    ]


def measure_missing(
    candidates: Iterable[Candidate], questions: QuestionSet, sample: int, *, by: User | str | None
) -> tuple[list[Evaluation], list[Job]]:
    """(existing evaluations, jobs that make the missing ones, just started or already running).

    RealmError if a candidate has no index.
    """
    if questions.purpose != Purpose.MEASURE:
        raise RealmError(f"{questions.name} is a set to train on; models are not measured by it.")
    drawn = questions.drawn(sample)
    there, started = [], []
    for candidate in candidates:
        evaluation = find(candidate, questions, drawn)
        if evaluation is not None:
            there.append(evaluation)
            continue
        index = candidate.index()
        if index is None:
            raise RealmError(f"{candidate.corpus.name} has no index for {candidate.model}; build one first.")
        parameters = {"index": index.pk, "model": candidate.model.pk, "questions": questions.pk, "sample": drawn}
        try:
            started.append(jobs.start(JobKind.EVALUATE, parameters, by=by))
        except jobs.AlreadyActive as active:
            started.append(active.job)
    return there, started
