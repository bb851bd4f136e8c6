"""Fine-tuning, end to end: `python -m realm_core finetune` (also under torchrun).

    main → supervision (where the answers stand) → FinetuneStep in a loop → model folder

Blocks are retrieved by the model, whose query embedder is trained, or by BM25, the baseline in which only the reader
is. Block vectors never change. The run folder holds the checkpoints; the same command run again resumes there.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from realm_core.arrays import Array
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import BlockTokens
from realm_core.errors import RealmError
from realm_core.index.corpus_of import corpus_of
from realm_core.index.generation import Generation
from realm_core.index.retriever import DenseRetriever, Retriever, SparseRetriever, check_manifest_fits
from realm_core.living.present import with_edits
from realm_core.model.checkpoint import Model, load_model
from realm_core.model.joiner import Joiner
from realm_core.questions.answers import normalise_answer
from realm_core.questions.question_file import Question, read_questions, read_titles
from realm_core.runs.activity import Activity
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.config import FinetuneConfig
from realm_core.training.distributed import World
from realm_core.training.finetune_step import FinetuneStep, Ranking, Supervised
from realm_core.training.identity import deciding, identity_of
from realm_core.training.learnt_questions import files_by_name
from realm_core.training.learnt_right import LearntRight
from realm_core.training.loop import Loop, ParameterGroup, made_ready
from realm_core.training.occurrences import find_all
from realm_core.training.stage import Stage, in_run_folder, question_draw
from realm_core.training.tasks import Finetune

_RANKED = 200  # blocks that BM25 ranks for a question
_LEAST_HELD_OUT = 8
_NAMED = 5  # questions that are not learnt, in the log
_ROWS_AT_ONCE = 10_000
_QUESTIONS_AT_ONCE = 256


@in_run_folder
def main(task: Finetune, stage: Stage) -> None:
    if task.index is None or task.retriever != "dense":
        _finetune(task, stage)
        return
    edits = task.state, task.living, stage.run, stage.activity
    with with_edits(task.index, task.corpus, *edits, removes=stage.world.leads) as searched:
        _finetune(task.model_copy(update=vars(searched)), stage)


def _finetune(task: Finetune, stage: Stage) -> None:
    config, world, device = task.settings, stage.world, stage.device
    files = {name: read_questions(path) for name, path in files_by_name(task.questions).items()}
    model, snapshot = load_model(task.model), Snapshot.verified(corpus_of(task.index, task.corpus))
    # The reader answers under the normalisation that it is trained under.
    if not model.config.not_here and (config.pairs or config.normalisation == "block+null"):
        raise RealmError(
            f"{task.model} has no score of “not here”, as the released models: set pairs = 0, and normalisation to "
            '"joint" or "block".'
        )
    reading = dataclasses.replace(model.config, normalisation=config.normalisation)
    model = dataclasses.replace(model, config=reading)
    retriever, matrix_ND, found_by = _retriever(task, model, snapshot)
    score_scale = None
    if matrix_ND is None:
        score_scale = task.score_scale
        config = config.model_copy(update={"query_lr": 0.0})  # BM25 retrieves, so the query embedder is not used
    tokens, reporting = stage.open_tokens(snapshot), stage.reporting
    excluded_N = _excluded(task.exclude_titles, snapshot)
    learnt, held_out = _supervision(
        files, excluded_N, config, model, retriever, score_scale, snapshot, tokens, reporting
    )
    del retriever  # frees a second copy of the block vectors
    questions_a_step = min(len(learnt), config.batch)
    if questions_a_step < world.size:
        raise RealmError(f"{world.size} processes cannot share a step's questions: it has {questions_a_step}.")
    given = sum(map(len, files.values()))
    counted = {"given": given, "learnt": len(set(map(id, learnt))), "held_out": len(held_out)}
    reporting.say(f"{len(learnt):,} questions to train on, {len(held_out):,} held out.")
    stage.tell_none_held_out(len(held_out), given, "questions", config.holdout)
    for part in (model.query, model.reader):
        made_ready(part, device, config.dropout)
    if config.query_lr == 0:
        model.query.requires_grad_(False)
    step = FinetuneStep(
        model.config,
        model.query,
        model.reader,
        Joiner(tokens, device),
        None if matrix_ND is None else matrix_ND.to(device).float(),
        torch.from_numpy(excluded_N).to(device),
        config,
    )
    groups = [ParameterGroup(model.reader.bert, config.reader_lr)]
    groups += [
        ParameterGroup(part, config.head_lr) for part in (model.reader.ends, model.reader.norm, model.reader.score)
    ]
    if config.query_lr:
        groups.append(ParameterGroup(model.query, config.query_lr))
    free = ("epochs", "checkpoint_every", "metrics_every", "at_once")
    identity = identity_of(
        model=model.hash,
        corpus=snapshot.snapshot_id,
        settings=deciding(config, free),
        questions=list(files.items()),
        learnt=[(one.group, one.ids, len(one.occurrences.rows_O)) for one in learnt],
        excluded=hashlib.sha256(excluded_N.tobytes()).hexdigest(),
        **({} if score_scale is None else {"score_scale": score_scale}),
    )
    loop = stage.loop(groups, identity, steps=max(1, len(learnt) // config.batch) * config.epochs)
    learnt_right = LearntRight(learnt, {name: len(own) for name, own in files.items()}, held_out)
    learnt_right.ask(step, config.at_once, reporting)  # the loop has not resumed yet: these are the first parameters
    measured = _train(loop, step, learnt, held_out, config, world)
    learnt_right.ask(step, config.at_once, reporting)
    learnt_right.tell(reporting)
    recipe = (
        f"fine-tuned from {model.hash} with {found_by} on {len(learnt)} questions of {', '.join(files)}: "
        f"{config.model_dump()}"
    )
    stage.publish(model, recipe, measured, questions={**counted, "sets": learnt_right.counts()})


def _retriever(task: Finetune, model: Model, snapshot: Snapshot) -> tuple[Retriever, torch.Tensor | None, str]:
    """(retriever, vectors of all blocks if the model retrieves, the retriever's name)."""
    if task.retriever == "bm25":
        return SparseRetriever(snapshot, task.bm25_cache), None, "BM25"
    assert task.index is not None
    generation = Generation.open(task.index)
    check_manifest_fits(model, generation.manifest, snapshot)
    return DenseRetriever(model, generation), generation.vectors_ND, generation.name


def _excluded(path: Path | None, snapshot: Snapshot) -> Array:
    """bool [N]: blocks of the articles that a JSON list names."""
    excluded_N = np.zeros(len(snapshot), np.bool_)
    if path is None:
        return excluded_N
    wanted = {normalise_answer(title) for title in read_titles(path)}
    for start in range(0, len(snapshot), _ROWS_AT_ONCE):
        own = snapshot.titles_texts(start, start + _ROWS_AT_ONCE)[0]
        excluded_N[start : start + len(own)] = [normalise_answer(title) in wanted for title in own]
    return excluded_N


def _supervision(
    files: dict[str, list[Question]],
    excluded_N: Array,
    config: FinetuneConfig,
    model: Model,
    retriever: Retriever,
    score_scale: float | None,
    snapshot: Snapshot,
    tokens: BlockTokens,
    activity: Activity,
) -> tuple[list[Supervised], list[Supervised]]:
    """(to train on, held out): the first are questions with an answer in the corpus, repeated as configured; the
    others are held out whether the corpus holds their answer or not.

    score_scale: None if the model retrieves; otherwise each question gets its ranking, with scores times this.
    """
    questions = [(group, question) for group, own in files.items() for question in own]
    found = find_all(
        [question for _, question in questions],
        snapshot,
        tokens,
        lambda texts: retriever.rows(texts, config.examined) if texts else [],
        activity,
    )
    limit = model.config.query_wordpieces - 2
    texts = [question.question for _, question in questions]
    ids = Wordpieces.default().ids(texts)
    rankings = [None] * len(texts) if score_scale is None else _rankings(retriever, texts, score_scale, activity)
    learnt: list[Supervised] = []
    held_out: list[Supervised] = []
    unwanted = 0
    set_aside: list[str] = []
    absent: list[str] = []
    for (group, question), own_ids, (everywhere, expressions), ranking in zip(
        questions, ids, found, rankings, strict=True
    ):
        occurrences = everywhere.without(excluded_N)
        held = question_draw(question.question) < config.holdout
        one = Supervised(own_ids[:limit], occurrences, group, ranking, expressions, question.question)
        if held:
            held_out.append(one)
        elif len(occurrences.rows_O):
            learnt.extend([one] * config.repeat.get(group, 1))
            unwanted += config.repeat.get(group, 1) == 0
        elif len(everywhere.rows_O):
            set_aside.append(question.question)
        else:
            absent.append(question.question)
    if absent:
        activity.say(_not_learnt(absent, "no block of the corpus holds an answer"))
    if set_aside:
        activity.say(_not_learnt(set_aside, "only articles that are left out hold an answer"))
    if not learnt:
        standing = sum(bool(len(one.occurrences.rows_O)) for one in held_out) + unwanted
        why = "The corpus holds an answer to none of the questions"
        if standing:
            why = f"The questions with an answer in the corpus, {standing:,}, are all held out or repeated 0 times"
        elif set_aside:
            why = (
                f"Of the questions, {len(set_aside):,} have their answers only in articles that are left out, as those "
                "that sets to measure by are about (in a job: “leave out measured”), and the others none"
            )
        raise RealmError(f"{why}; there is nothing to train on.")
    return learnt, held_out


def _not_learnt(questions: Sequence[str], why: str) -> str:
    """How many questions are not learnt and why; the first of them are named, for whoever gave them as corrections."""
    are = "question is" if len(questions) == 1 else "questions are"
    named = ", ".join(f"“{one}”" for one in questions[:_NAMED])
    more = f" and {len(questions) - _NAMED:,} more" if len(questions) > _NAMED else ""
    return f"{len(questions):,} {are} not learnt, because {why}: {named}{more}."


def _rankings(retriever: Retriever, texts: Sequence[str], scale: float, activity: Activity) -> list[Ranking]:
    """The best blocks of every question, their scores times `scale`."""
    rankings: list[Ranking] = []
    for start in range(0, len(texts), _QUESTIONS_AT_ONCE):
        activity.check()
        rows, scores = retriever.search(texts[start : start + _QUESTIONS_AT_ONCE], _RANKED)
        for own_rows, own_scores in zip(rows, scores, strict=True):
            rankings.append(Ranking(np.array(own_rows, np.int64), np.array(own_scores, np.float32) * np.float32(scale)))
    return rankings


def _train(
    loop: Loop,
    step: FinetuneStep,
    learnt: Sequence[Supervised],
    held_out: Sequence[Supervised],
    config: FinetuneConfig,
    world: World,
) -> dict[str, float]:
    per_epoch = max(1, len(learnt) // config.batch)

    def losses_of(number: int) -> Iterator[tuple[torch.Tensor, dict[str, float]]]:
        epoch, position = divmod(number, per_epoch)
        order = list(range(len(learnt)))
        random.Random(f"{config.seed} questions {epoch}").shuffle(order)
        batch = [learnt[i] for i in order[position * config.batch : (position + 1) * config.batch]]
        own = batch[world.share(len(batch))]
        parts = (own[start : start + config.at_once] for start in range(0, len(own), config.at_once))
        for part in world.averaged(replica, parts):
            loss, figures = replica(part)
            yield loss * world.weight(len(part), len(batch)), figures

    replica = world.replicate(step)
    step.train()
    measured = loop.run(losses_of, lambda: _measure(step, held_out, config.at_once))
    step.eval()
    return measured


def _measure(step: FinetuneStep, held_out: Sequence[Supervised], at_once: int) -> dict[str, float]:
    """Held-out recall, and how often the best span reads an answer; by set where it has enough questions."""
    sums: dict[str, list[bool]] = defaultdict(list)
    step.eval()
    for start in range(0, len(held_out), at_once):
        part = held_out[start : start + at_once]
        for one, figures in zip(part, step.figures(part), strict=True):
            for name, value in figures.items():
                sums[name].append(value)
                sums[f"{name}.{one.group}"].append(value)
    step.train()
    return {
        name: sum(values) / len(values)
        for name, values in sorted(sums.items())
        if "." not in name or (len(values) >= _LEAST_HELD_OUT and not name.startswith("recall@1"))
    }
