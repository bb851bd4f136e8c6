"""The query embedder alone: `python -m realm_core train-retriever`.

    questions, indexes → the nearest blocks before training (`nearest.py`)
    → −log Σ_{z right} softmax f(x, z) in a loop → model folder

The softmax is over a question's own nearest blocks and some of those nearest to the other questions of its step, all of
one index. What is unclear is in neither sum. Compared with fine-tuning (`finetune.py`), where a match of the answer's
string counts anywhere in the corpus, less noise is learnt, nothing is read, and a step costs no more than embedding its
questions. Block vectors do not change, so every index of the model stays valid.

Legend: B questions of a step, C competing blocks of each, M blocks of others, D dimension.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.index.generation import Generation
from realm_core.index.retriever import DenseRetriever, check_manifest_fits
from realm_core.living.present import Searched, with_edits
from realm_core.model.adapter import Adapter, adapt, bert_of, merge
from realm_core.model.checkpoint import Model, load_model, own_adapter
from realm_core.model.device import fast_dtype
from realm_core.model.embedder import Embedder
from realm_core.model.marginal import log_retriever_marginal
from realm_core.model.packed import Packed
from realm_core.questions.answers import holds_answer
from realm_core.questions.question_file import Question
from realm_core.text.joins import join_query
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.config import RetrieverConfig
from realm_core.training.identity import deciding, identity_of
from realm_core.training.learnt_questions import LeftOut, files_by_name
from realm_core.training.loop import ParameterGroup
from realm_core.training.nearest import Nearest, NearestBlocks
from realm_core.training.stage import MOST_HELD_OUT, Stage, in_run_folder, question_draw
from realm_core.training.tasks import TrainRetriever

_MEASURED = (1, 5, 20)  # of the best blocks
_MEASURED_AT_ONCE = 256


@dataclass(frozen=True)
class Learnt:
    """The questions that one index is searched for. ids: wordpieces; drawn: each question as often as it is learnt."""

    ids: list[list[int]]
    nearest: Nearest
    vectors_ND: Tensor
    drawn: list[int]


@dataclass(frozen=True)
class HeldOut:
    """Questions that recall is measured with, in one index."""

    name: str
    questions: list[Question]
    retriever: DenseRetriever
    snapshot: Snapshot


@in_run_folder
def main(task: TrainRetriever, stage: Stage) -> None:
    states: Sequence[Path | None] = task.state or [None] * len(task.index)
    with ExitStack() as stack:
        searched = [
            stack.enter_context(with_edits(index, None, state, task.living, stage.run, stage.activity))
            for index, state in zip(task.index, states, strict=True)
        ]
        _train(task, searched, stage)


def _train(task: TrainRetriever, indexes: Sequence[Searched], stage: Stage) -> None:
    config = task.settings
    model = load_model(task.model)
    model.query.to(stage.device)
    learnt, held_out, about, counted = _supervision(task, indexes, model, stage)
    count = sum(len(one.drawn) for one in learnt)
    stage.activity.say(f"{count:,} to learn, {sum(len(one.questions) for one in held_out):,} to measure recall with.")
    stage.tell_none_held_out(counted["held_out"], counted["given"], "questions", config.holdout)
    continues = _choose_parameters(model.query, config, task.model)
    step = RetrieverStep(model.query, others=config.others, device=stage.device)
    batches = Batches(learnt, config)
    free = ("epochs", "checkpoint_every", "metrics_every")
    groups = [ParameterGroup(model.query.bert, config.query_lr), ParameterGroup(model.query.dense, config.dense_lr)]
    identity = identity_of(model=model.hash, settings=deciding(config, free), indexes=about, learnt=count)
    loop = stage.loop(groups, identity, steps=batches.steps)

    def losses_of(number: int) -> Iterator[tuple[Tensor, dict[str, float]]]:
        own, questions = batches.of(number)
        loss, right = step(own, questions)
        yield loss, {"sequences": len(questions), "right": right}

    measured = loop.run(losses_of, lambda: _measure(held_out))
    adapter = Adapter(task.model, _adapter(model.query), continues) if config.low_rank else None
    names = ", ".join(path.stem for path in task.questions)
    recipe = f"query embedder of {model.hash} trained on {count} of {names}: {config.model_dump()}"
    stage.publish(replace(model, adapter=adapter), recipe, measured, questions=counted)


def _supervision(
    task: TrainRetriever, indexes: Sequence[Searched], model: Model, stage: Stage
) -> tuple[list[Learnt], list[HeldOut], object, dict[str, int]]:
    """(what is learnt in each index, what recall is measured with, what identifies both, numbers of questions)."""
    config, activity = task.settings, stage.activity
    left_out = LeftOut.of(task.without, task.exclude_titles)
    files = {
        name: left_out.rest(path, answerable=True, seed=config.seed, take=config.take.get(name))
        for name, path in files_by_name(task.questions).items()
    }
    grouped = [(name, question) for name, own in files.items() for question in own]
    measured = [pair for pair in grouped if question_draw(pair[1].question) < config.holdout]
    random.Random(config.seed).shuffle(measured)
    grouped = [pair for pair in grouped if question_draw(pair[1].question) >= config.holdout]
    questions = [question for _, question in grouped]
    times = [config.repeat.get(name, 1) for name, _ in grouped]
    width = model.config.query_wordpieces
    ids = [one.ids for one in join_query(Wordpieces.default(), [q.question for q in questions], width)]
    folder = stage.run / stage.name
    folder.mkdir(parents=True, exist_ok=True)
    learnt: list[Learnt] = []
    held_out: list[HeldOut] = []
    about: list[object] = []
    for searched in indexes:
        snapshot, generation = Snapshot.verified(searched.corpus), Generation.open(searched.index)
        check_manifest_fits(model, generation.manifest, snapshot)
        retriever = DenseRetriever(model, generation)
        own = [snapshot.snapshot_id, sorted(left_out.titles), questions, config.right_within, config.competing]
        kept = folder / f"nearest-{identity_of(model=model.hash, own=own).hash}"
        found = NearestBlocks(
            retriever, snapshot, left_out.titles, right_within=config.right_within, competing=config.competing
        ).of(questions, kept, activity, f"nearest blocks of {generation.name}")
        usable = torch.nonzero(found.right_QC.any(1)).squeeze(1).tolist()
        drawn = [number for number in usable for _ in range(times[number])]
        activity.say(f"{generation.name}: {len(usable):,} of {len(questions):,} questions have a right block near.")
        if drawn:
            learnt.append(Learnt(ids, found, generation.vectors_ND, drawn))
        most = MOST_HELD_OUT // len(task.index)
        held_out.append(HeldOut(generation.name, [q for _, q in measured[:most]], retriever, snapshot))
        about.append([generation.name, own[:1], drawn])
    if not learnt:
        raise RealmError("None of the questions that are not held out has a right block near; nothing can be learnt.")
    distinct = len({number for one in learnt for number in one.drawn})
    counted = {"given": len(questions) + len(measured), "learnt": distinct, "held_out": len(measured)}
    return learnt, held_out, about, counted


def _choose_parameters(query: Embedder, config: RetrieverConfig, folder: Path) -> bool:
    """Freeze what is not trained; True if it is the query embedder's adapter of the model in `folder`."""
    query.eval()  # no dropout: the vectors that are compared with are those without, too
    query.norm.requires_grad_(False)  # its gain is the scale of f, and so how sharp the prior is
    if not config.low_rank:
        query.bert.embeddings.requires_grad_(False)
        return False
    torch.manual_seed(config.seed)
    return adapt(query.bert, config.low_rank, 0, bert_of(own_adapter(folder), "query"))


def _adapter(query: Embedder) -> dict[str, Tensor]:
    """The tensors that the training changed; the embedder has them merged afterwards."""
    changed = {f"query.bert.{name}": tensor for name, tensor in merge(query.bert).items()}
    return changed | {f"query.dense.{name}": tensor for name, tensor in query.dense.state_dict().items()}


class Batches:
    """The questions of each step. An epoch has all batches of all indexes, in random order; a batch is of one index."""

    def __init__(self, learnt: Sequence[Learnt], config: RetrieverConfig) -> None:
        self._learnt, self._batch, self._seed = learnt, config.batch, config.seed
        self._places = [
            (index, number)
            for index, one in enumerate(learnt)
            for number in range(max(1, len(one.drawn) // config.batch))
        ]
        self.steps = len(self._places) * config.epochs
        self._plans: dict[int, tuple[list[tuple[int, int]], list[list[int]]]] = {}

    def of(self, step: int) -> tuple[Learnt, list[int]]:
        """The questions of a step, as numbers in its index's."""
        epoch, position = divmod(step, len(self._places))
        places, orders = self._plan(epoch)
        index, number = places[position]
        return self._learnt[index], orders[index][number * self._batch : (number + 1) * self._batch]

    def _plan(self, epoch: int) -> tuple[list[tuple[int, int]], list[list[int]]]:
        """The order of the batches in an epoch, and of each index's questions."""
        if epoch not in self._plans:
            draw = random.Random(f"{self._seed} {epoch}")
            orders = [draw.sample(one.drawn, len(one.drawn)) for one in self._learnt]
            self._plans = {epoch: (draw.sample(self._places, len(self._places)), orders)}
        return self._plans[epoch]


class RetrieverStep:
    """The computation of a step. others: blocks taken from the nearest of each other question."""

    def __init__(self, query: Callable[[Packed], Tensor], *, others: int, device: torch.device) -> None:
        self._query, self._others, self._device = query, others, device
        self._autocast = device.type != "cpu" and fast_dtype(device) == torch.bfloat16

    def __call__(self, learnt: Learnt, questions: Sequence[int]) -> tuple[Tensor, float]:
        """(loss, share of the questions whose best own block is right)."""
        nearest = learnt.nearest.of(questions)
        packed = Packed.of([learnt.ids[number] for number in questions]).to(self._device)
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._autocast):
            query_BD = self._query(packed).float()
        taken = torch.randperm(nearest.rows_QC.shape[1])[: self._others]
        others_M = torch.unique(nearest.rows_QC[:, taken])
        own_BC = torch.einsum("bd,bcd->bc", query_BD, self._vectors(learnt, nearest.rows_QC))
        other_BM = query_BD @ self._vectors(learnt, others_M).T
        known_BM = (nearest.rows_QC.unsqueeze(2) == others_M).any(1)  # its own already, right, wrong or unclear
        right_BC, unclear_BC = nearest.right_QC.to(self._device), nearest.unclear_QC.to(self._device)
        own_BC = own_BC.masked_fill(unclear_BC, -math.inf)
        scores = torch.cat([own_BC, other_BM.masked_fill(known_BM.to(self._device), -math.inf)], dim=1)
        right = torch.cat([right_BC, torch.zeros_like(other_BM, dtype=torch.bool)], dim=1)
        best_B = right_BC.gather(1, own_BC.argmax(1, keepdim=True))
        return -log_retriever_marginal(scores, right).mean(), float(best_B.float().mean())

    def _vectors(self, learnt: Learnt, rows: Tensor) -> Tensor:
        """Vectors of these rows, of the shape of `rows` and D, float32."""
        chosen: Tensor = learnt.vectors_ND[rows.long()].to(self._device).float()
        return chosen


@torch.no_grad()
def _measure(held_out: Sequence[HeldOut]) -> dict[str, float]:
    """Recall of the held-out questions in each index: whether one of the best blocks holds an answer's string."""
    figures: dict[str, float] = {}
    for one in held_out:
        found: list[list[bool]] = []
        for start in range(0, len(one.questions), _MEASURED_AT_ONCE):
            part = one.questions[start : start + _MEASURED_AT_ONCE]
            rows = one.retriever.rows([question.question for question in part], max(_MEASURED))
            for question, own in zip(part, rows, strict=True):
                texts = [one.snapshot.block(row).text for row in own]
                found.append([holds_answer(text, question.answers, question.answer_type) for text in texts])
        for k in _MEASURED if found else ():
            figures[f"recall@{k}.{one.name}"] = sum(any(held[:k]) for held in found) / len(found)
    return figures
