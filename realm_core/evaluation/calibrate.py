"""Calibrate a model's probabilities: `python -m realm_core calibrate`.

    questions with and without answers → blocks read once (`readings.py`)
    → temperatures, bias, confidence, its threshold (`calibration_rule.py`) → config.json

The weights do not change, and the question files must not have been trained on. With indexes of other corpora and
questions for them, a second calibration is fitted there, which holds for every corpus but the first: where answers are
missing more often, the same scores mean less. Of these questions the share is maximised whose best candidate is right.
"""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from realm_core.errors import RealmError
from realm_core.evaluation.answering_code import answering_code
from realm_core.evaluation.calibration_rule import Fit, ReadQuestion, fitted
from realm_core.evaluation.predicting import Predictor
from realm_core.evaluation.readings import KeptReadings
from realm_core.evaluation.retrieving import EngineRetrieving
from realm_core.evaluation.tasks import Calibrate
from realm_core.files import disk_errors, new_folder, read_json, refuse_existing, remove_folder, write_json
from realm_core.index.corpus_of import corpus_of
from realm_core.living.present import with_edits
from realm_core.model.checkpoint import load_model, weighted
from realm_core.model.config import Calibration, ModelConfig
from realm_core.model.device import fast_dtype, pick_device
from realm_core.object_store import publish
from realm_core.questions.question_file import Question, read_questions
from realm_core.runs.activity import Activity
from realm_core.serving.corpus import ServedCorpus, open_corpus
from realm_core.serving.reading import BlockReading


def main(task: Calibrate, activity: Activity) -> None:
    """Fit, and write the model with the fitted values."""
    refuse_existing(task.output)
    with with_edits(task.index, task.corpus, task.state, task.living, activity.run, activity) as searched:
        _calibrate(task.model_copy(update=vars(searched)), activity)


def _calibrate(task: Calibrate, activity: Activity) -> None:
    given = _by_name(task.questions, answerable=None)
    files = {name: answerable for name, own in given.items() if (answerable := [one for one in own if one.answers])}
    others = _by_name(task.other_questions)
    without = [question for own in given.values() for question in own if not question.answers]
    without += [question for path in task.unanswerable for question in read_questions(path, answerable=False)]
    if not files or not without:
        lacking = "without an answer (`[]`)" if files else "with answers"
        raise RealmError(f"Questions {lacking} are needed, too: silence is weighed against right answers.")
    place = pick_device(task.device)
    model = weighted(load_model(task.model, frozen=fast_dtype(place)), task.lexical_weight)
    if not model.config.not_here:
        raise RealmError(f"{task.model} has no score of “not here”, to compare answers with.")
    raw = dataclasses.replace(model.config.calibrated(Calibration()), normalisation="block+null")
    for part in (model.query, model.reader):
        part.for_inference(place)
    of_others = sum(map(len, (*others.values(), without))) * len(task.other_index)
    total = sum(map(len, (*files.values(), without))) + of_others
    counter = itertools.count(1)
    kept = activity.run or task.output.with_name(f".{task.output.name}.run")

    def fit_on(files: dict[str, list[Question]], corpora: dict[str, KeptReadings], *, withheld_counts: bool) -> Fit:
        def read(readings: KeptReadings, questions: Sequence[Question]) -> list[ReadQuestion]:
            made = []
            for question, blocks in readings.of(questions):
                made.append(ReadQuestion(question, blocks))
                activity.progress(next(counter), total, "questions")
            return made

        groups: dict[str, list[ReadQuestion]] = {}
        none: list[ReadQuestion] = []
        for corpus, readings in corpora.items():
            groups |= {f"{name}{corpus}": read(readings, group) for name, group in files.items()}
            none += read(readings, without)
        fit = fitted(groups, none, task.allowed, withheld_counts=withheld_counts)
        activity.say("\n".join(f"{name:24} {value}" for name, value in dataclasses.asdict(fit).items()))
        return fit

    def blocks_read(corpus: ServedCorpus) -> int:
        return task.k or model.config.at(corpus.origin).k

    def readings(index: Path, folder: Path | None) -> tuple[ServedCorpus, KeptReadings]:
        corpus, name = open_corpus(model, index, corpus_of(index, folder), None, place, "exact")
        texts = corpus.index.corpus
        reading = BlockReading(model.reader, raw, model="", index="", corpus="")
        k = blocks_read(corpus)
        predictor = Predictor(EngineRetrieving(model, corpus), reading, texts, k=k, normalisation="block+null")
        reader = f"{model.hash} {raw.normalisation} {place} {name} {corpus.id} {k} {raw.lexical_weight}"
        return corpus, KeptReadings(predictor, texts, kept / "readings", f"{reader} {answering_code()}", activity)

    corpus, here = readings(task.index, task.corpus)
    folders: Sequence[Path | None] = task.other_corpus or [None] * len(task.other_index)
    opened = {f" in {index}": readings(index, one) for index, one in zip(task.other_index, folders, strict=True)}
    there = {name: kept_readings for name, (_, kept_readings) in opened.items()}
    own = fit_on(files, {"": here}, withheld_counts=True)
    elsewhere = fit_on(others, there, withheld_counts=False) if there else None
    calibration = dataclasses.replace(own.calibration, k=blocks_read(corpus))
    config = raw.calibrated(calibration)
    if elsewhere is not None:
        k = max(blocks_read(other) for other, _ in opened.values())
        config = raw.calibrated(calibration, corpus.origin, dataclasses.replace(elsewhere.calibration, k=k))
    write_calibrated(task.model, task.output, config, (*task.questions, *task.other_questions))
    result = {"path": str(task.output), "own": own, "elsewhere": elsewhere}
    activity.result({name: dataclasses.asdict(one) if isinstance(one, Fit) else one for name, one in result.items()})
    if not activity.run:
        remove_folder(kept)


def _by_name(paths: Sequence[Path], *, answerable: bool | None = True) -> dict[str, list[Question]]:
    """The questions of each file, by its name without ending; by its path if another file is called the same."""
    called = Counter(path.stem for path in paths)
    return {
        path.stem if called[path.stem] == 1 else str(path): read_questions(path, answerable=answerable)
        for path in paths
    }


def write_calibrated(model: Path, output: Path, config: ModelConfig, questions: Sequence[Path]) -> None:
    """Write the model's folder with another configuration; it is published by a rename."""
    with new_folder(output, publish=publish) as temporary:
        with disk_errors(output):
            for file in model.iterdir():
                if file.is_file() and file.name != "config.json":
                    shutil.copy2(file, temporary / file.name)
        record = read_json(model / "config.json")
        record.pop("checksum", None)
        about = dict(record.get("about") or {})
        about["calibrated_on"] = [path.stem for path in questions]
        write_json(temporary / "config.json", {**record, "model": config.as_dict(), "about": about}, sealed=True)
