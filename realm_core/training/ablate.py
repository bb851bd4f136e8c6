"""The paper's ablations on any corpus: `python -m realm_core ablate`. One command makes the rows of table 2.

    main → settings and inputs checked → AblationPlan (ablation_plan.py) → each stage in its own process → tables

Every stage is a command of this package. Results that exist are not made again, and a stage that was stopped or killed
resumes from its checkpoint, so the same command run again completes what is missing. In the output folder:

    plan.json                     the inputs and settings; another plan needs another folder
    models/ indexes/ tuned/       what the stages make
    runs/STAGE/                   progress, metrics, log and result of each; metrics and log are passed on, too
    predictions/ROW.SET.jsonl     for `compare`; ROW.2 and so on with other seeds
    seconds.json                  the time of each stage, over all its attempts
    results.md, results.json      the finished rows
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError, Stopped
from realm_core.evaluation import compare
from realm_core.evaluation.predictions import read_predictions
from realm_core.evaluation.significance import repeated_difference
from realm_core.files import read_json, replaced, sha256_of_file, write_json
from realm_core.model.device import pick_device
from realm_core.model.identity import read_hashes
from realm_core.questions.answers import normalise_answer
from realm_core.questions.question_file import Question, read_questions, read_titles
from realm_core.runs.activity import Activity
from realm_core.runs.folder import LOCK, RunFolder
from realm_core.runs.locks import only_one
from realm_core.runs.part import run_part
from realm_core.salient.cache import MANIFEST_FILE, SalientSpans
from realm_core.training.ablation import BASELINE, BM25, ROWS, ZERO_SHOT, AblationConfig, RowRun, named
from realm_core.training.ablation_plan import AblationPlan, AblationSizes, AblationStage
from realm_core.training.identity import differences
from realm_core.training.learnt_questions import files_by_name
from realm_core.training.relay import Relay, passed_on
from realm_core.training.tasks import Ablate, Pretrain

_FIGURES = ("exact_match", "zero_shot_recall@5")
_NOTE_S = 5.0  # between two writes of a running stage's time
_STAGE_COLUMNS = ("seed", "seconds", "refreshes", "index_lag_steps", "made")  # of the table of stages
_INDEX_STEP, _LAG_STEPS = "pretrain.index_step", "pretrain.index_lag_steps"  # metrics of pre-training


def main(arguments: Ablate, activity: Activity) -> None:
    """Run the missing stages, and print the table."""
    settings = arguments.settings
    sizes, identity = _inputs(arguments, settings)
    plan = AblationPlan(arguments, sizes)
    with only_one(arguments.output, activity):
        _claim(arguments.output, {**identity, "settings": settings.model_dump()})
        stages = _Stages(plan, arguments.output, activity)
        results: dict[str, Any] = {}
        text = ""
        finished: list[RowRun] = []
        for run, own in plan.stages_of.items():
            stages.run(own)
            finished.append(run)
            results, text = _results(plan, sizes, finished, stages.seconds)
            names = {stage.name for stage in own}
            for sentence in _never_replaced(stage for stage in results["stages"] if stage["name"] in names):
                activity.warn(sentence)
            write_json(arguments.output / "results.json", {"of": read_json(arguments.output / "plan.json"), **results})
            with replaced(arguments.output / "results.md") as temporary:
                temporary.write_text(text + "\n", encoding="utf-8")
    print(text)
    activity.result(results)


def _inputs(arguments: Ablate, settings: AblationConfig) -> tuple[AblationSizes, dict[str, Any]]:
    """(sizes of the inputs, what identifies them); every file is opened and checked."""
    for device in (arguments.device, arguments.builder_device):
        pick_device(device)
    questions, dev = files_by_name(arguments.questions), files_by_name(arguments.dev)
    repeat = settings.finetune.repeat
    snapshot = Snapshot.verified(arguments.corpus)
    SalientSpans.open(arguments.spans, snapshot)
    excluded: Path | None = arguments.exclude_titles
    if excluded is not None:
        read_titles(excluded)
    learnt = {path: read_questions(path) for path in arguments.questions}
    measured = {path: read_questions(path) for path in arguments.dev}
    _refuse_common({path: rows for path, rows in learnt.items() if repeat.get(path.stem, 1)}, measured)
    sizes = AblationSizes(
        blocks=len(snapshot),
        asked=sum(len(rows) * repeat.get(path.stem, 1) for path, rows in learnt.items()),
        dev_asked={path.stem: len(rows) for path, rows in measured.items()},
    )
    return sizes, {
        "model": read_hashes(arguments.model)[0],
        "corpus": snapshot.snapshot_id,
        "spans": sha256_of_file(arguments.spans / MANIFEST_FILE),
        "questions": {name: sha256_of_file(path) for name, path in questions.items()},
        "dev": {name: sha256_of_file(path) for name, path in dev.items()},
        "exclude_titles": None if excluded is None else sha256_of_file(excluded),
    }


def _refuse_common(learnt: dict[Path, list[Question]], measured: dict[Path, list[Question]]) -> None:
    """Refuse to train on questions that are measured by; fine-tuning itself does not know the latter."""
    for path, trained_on in learnt.items():
        asked = {normalise_answer(one.question) for one in trained_on}
        common = {dev: sum(normalise_answer(one.question) in asked for one in rows) for dev, rows in measured.items()}
        if any(common.values()):
            where = ", ".join(f"{count:,} of {dev}" for dev, count in common.items() if count)
            raise RealmError(
                f"{path} holds questions that are measured by, {where}; these must not be trained on. "
                "`questions --format own --without` removes them."
            )


def _claim(output: Path, identity: dict[str, Any]) -> None:
    """Mark an empty folder as this ablation's, or check that it is."""
    path = output / "plan.json"
    if not path.exists():
        if any(child.name != LOCK for child in output.iterdir()):
            raise RealmError(f"{output} holds other files; name a new folder for the ablation.")
        write_json(path, identity)
    known, wanted = _flat(read_json(path)), _flat(identity)
    if differing := differences(known, wanted):
        raise RealmError(f"{output} holds another ablation (it differs in {differing}); choose another folder.")


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested JSON objects as one, with their keys joined by dots."""
    if not isinstance(value, dict):
        return {prefix: value}
    return {k: v for name, one in value.items() for k, v in _flat(one, f"{prefix}.{name}".lstrip(".")).items()}


class _Stages:
    """Runs stages one after the other, as parts of the ablation. `seconds`: the time of each."""

    def __init__(self, plan: AblationPlan, output: Path, activity: Activity) -> None:
        self._plan, self._activity = plan, activity
        self._kept = output / "seconds.json"
        self.seconds: dict[str, float] = read_json(self._kept) if self._kept.exists() else {}
        self._total = sum(stage.sequences for stage in plan.stages)
        self._numbers = {stage.name: number for number, stage in enumerate(plan.stages, start=1)}
        self._done = 0
        passed = passed_on(activity)
        self._relays = {stage.name: Relay(stage, plan.run(stage.name), passed, activity) for stage in plan.stages}
        for relay in self._relays.values():
            relay.look()  # metrics that an earlier attempt was not able to pass on

    def run(self, stages: Iterable[AblationStage]) -> None:
        """Run those that have no output yet."""
        for stage in stages:
            self._activity.check()
            found = stage.output.exists()
            if not found:
                self._run(stage)
            self._done += stage.sequences
            if not found or self._done == self._total:  # a found stage says nothing of the rate
                self._activity.progress(self._done, self._total, "sequences", stage.name)

    def _run(self, stage: AblationStage) -> None:
        folder, relay = self._plan.run(stage.name), self._relays[stage.name]
        before, started = self.seconds.get(stage.name, 0.0), time.monotonic()
        noted = started

        def look() -> None:
            nonlocal noted
            self._report(stage, folder)
            relay.look()
            if time.monotonic() - noted >= _NOTE_S:
                noted = time.monotonic()
                self._note(stage, before + noted - started)

        try:
            run_part(stage.name, stage.command, folder, self._activity, look)
        except Stopped:
            self._report(stage, folder)  # the step that it resumes at
            self._activity.flush()
            raise
        finally:
            relay.look()
            self._note(stage, before + time.monotonic() - started)

    def _report(self, stage: AblationStage, folder: RunFolder) -> None:
        """Report a stage's progress as a part of the whole."""
        progress = folder.progress() or {}
        share = (
            progress["done"] / progress["total"] if progress.get("unit") == stage.unit and progress["total"] else 0.0
        )
        message = f"stage {self._numbers[stage.name]} of {len(self._numbers)}, {stage.name}"
        if progress:
            message += f": {progress['done']:,} {progress['unit']}"
        done = self._done + int(min(1.0, share) * stage.sequences)
        self._activity.progress(min(done, self._total - 1), self._total, "sequences", message)

    def _note(self, stage: AblationStage, seconds: float) -> None:
        self.seconds[stage.name] = round(seconds, 1)
        write_json(self._kept, self.seconds)


def _results(
    plan: AblationPlan, sizes: AblationSizes, finished: Sequence[RowRun], seconds: dict[str, float]
) -> tuple[dict[str, Any], str]:
    """The finished rows as JSON and as Markdown."""
    sets = list(sizes.dev_asked)
    stages = [_stage_record(stage, plan.run(stage.name), seconds) for run in finished for stage in plan.stages_of[run]]
    held_out = {stage["name"]: stage["held_out"] for stage in stages}
    runs = {row: [one for one in finished if one.row == row] for row in dict.fromkeys(run.row for run in finished)}
    rows = [_row(plan, row, own, sets, held_out) for row, own in runs.items()]
    results = {"questions": sizes.dev_asked, "rows": rows, "stages": stages}
    compared = [compare.Run.of(plan.predictions(run, dev)) for dev in sets for run in finished]
    several = _between_seeds(plan, sets, runs) if len(finished) > len(runs) else []
    return results, _markdown(results, several, compared)


def _row(
    plan: AblationPlan, row: str, runs: Sequence[RowRun], sets: Sequence[str], held_out: dict[str, Any]
) -> dict[str, Any]:
    """The figures of a row, means over its seeds, and those of each seed."""
    of = ROWS[row]
    each = []
    for run in runs:
        after = {dev: _result(plan, f"evaluate-{run.name}.{dev}") for dev in sets}
        before = after  # BM25 is not trained
        retriever = BASELINE if of.retriever == BASELINE else named(of.retriever, run.number)
        if of.retriever != BM25:
            before = {dev: _result(plan, f"{ZERO_SHOT}-{retriever}.{dev}") for dev in sets}
        each.append(
            {
                "name": run.name,
                "model_hash": after[sets[0]]["of"]["model"],
                "exact_match": {dev: after[dev]["exact_match"] for dev in sets},
                "zero_shot_recall@5": {dev: before[dev]["recall@5"] for dev in sets},
                "utility": (held_out.get(f"{Pretrain.activity}-{retriever}") or {}).get("utility"),
            }
        )
    utilities = [one["utility"] for one in each if one["utility"] is not None]
    return {
        "name": row,
        **dataclasses.asdict(of),
        "model_hash": each[0]["model_hash"],
        **{figure: {dev: fmean(one[figure][dev] for one in each) for dev in sets} for figure in _FIGURES},
        "utility": fmean(utilities) if utilities else None,
        "seeds": each,
    }


def _between_seeds(plan: AblationPlan, sets: Sequence[str], runs: dict[str, list[RowRun]]) -> list[str]:
    """A sentence and a table: exact match of each row less that of the first, over seeds and questions."""

    def right(row: str, dev: str) -> list[list[bool]]:
        return [[one.right for one in read_predictions(plan.predictions(run, dev))] for run in runs[row]]

    first, *others = runs
    table = []
    for row in others:
        found = [repeated_difference(right(first, dev), right(row, dev)) for dev in sets]
        cells = [f"{100 * one.difference:+.1f} [{100 * one.low:+.1f}, {100 * one.high:+.1f}]" for one in found]
        table.append([ROWS[row].title, str(len(runs[row])), *cells])
    return [
        f"Exact match less that of {ROWS[first].title} ({len(runs[first])} seeds), with an interval of 95 % over seeds "
        "and questions.",
        compare.markdown_table(["row", "seeds", *sets], table),
    ]


def _result(plan: AblationPlan, name: str) -> Any:
    return read_json(plan.run(name).result_file)


def _stage_record(stage: AblationStage, folder: RunFolder, seconds: dict[str, float]) -> dict[str, Any]:
    """Description of a finished stage, its time, and the hash of the model or block embedder that it made.

    For pre-training also the number of index replacements, and by how many steps the index lagged on average.
    """
    made, held_out, refreshes, lag_steps = None, None, None, None
    if stage.id.stage == Pretrain.activity:
        refreshes, lag_steps = _freshness(folder.metrics_file)
    if (stage.output / "config.json").exists():
        made = read_hashes(stage.output)[0]
        held_out = read_json(stage.output / "config.json")["about"].get("held_out")
    elif (stage.output / "manifest.json").exists():
        made = read_json(stage.output / "manifest.json")["block_hash"]
    return {
        "name": stage.name,
        "seed": stage.seed,
        "budget": stage.budget,
        "seconds": seconds.get(stage.name),
        "made": made,
        "held_out": held_out,
        "refreshes": refreshes,
        "index_lag_steps": lag_steps,
        "command": stage.command,
    }


def _freshness(metrics: Path) -> tuple[int, float | None]:
    """(number of index replacements, mean lag of the index in steps) of a pre-training, from its metrics."""
    rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    moved_to = {row[_INDEX_STEP] for row in rows if _INDEX_STEP in row}
    # A resumed run reports some steps twice; each row is a mean since the one before.
    lags, before = 0.0, 0
    for step, lag in sorted({row["step"]: row[_LAG_STEPS] for row in rows if _LAG_STEPS in row}.items()):
        lags, before = lags + lag * (step - before), step
    return len(moved_to), round(lags / before, 1) if before else None


def _never_replaced(stages: Iterable[dict[str, Any]]) -> list[str]:
    """A sentence for each pre-training whose index was never replaced, although it should have been."""
    return [
        f"{stage['name']} ended with the index that it started with (refreshes: 0): no index of newer "
        "parameters arrived in time, so its rows are not what their names say. Give it more steps, or its builder "
        "a device of its own."
        for stage in stages
        if stage["refreshes"] == 0
    ]


def _markdown(results: dict[str, Any], between_seeds: Sequence[str], runs: Sequence[compare.Run]) -> str:
    sets = results["questions"]
    columns = ["row", *(f"{kind} % {dev} ({asked:,})" for dev, asked in sets.items() for kind in ("EM", "R@5"))]
    rows = [
        [
            row["title"],
            *(_mean(100 * one[figure][dev] for one in row["seeds"]) for dev in sets for figure in _FIGURES),
            "" if row["utility"] is None else _mean((one["utility"] for one in row["seeds"]), digits=2),
        ]
        for row in results["rows"]
    ]
    stages = [
        [stage["name"], stage["budget"], *("" if stage[key] is None else str(stage[key]) for key in _STAGE_COLUMNS)]
        for stage in results["stages"]
    ]
    return "\n\n".join(
        [
            "EM: exact match after fine-tuning. R@5: one of the best five blocks holds an answer, before fine-tuning. "
            "Utility: by how much a retrieved block raises the log-likelihood of held-out masked words over the null "
            "block's, a mean over the blocks. ±: standard deviation over the seeds.",
            compare.markdown_table([*columns, "utility"], rows),
            *between_seeds,
            "After fine-tuning, by question set.",
            compare.markdown(runs),
            "The stages.",
            compare.markdown_table(["stage", "budget", *(key.replace("_", " ") for key in _STAGE_COLUMNS)], stages),
            *_never_replaced(results["stages"]),
        ]
    )


def _mean(values: Iterable[float], digits: int = 1) -> str:
    """The mean of one figure of each seed, with their standard deviation if there are several."""
    every = list(values)
    spread = f" ± {stdev(every):.{digits}f}" if len(every) > 1 else ""
    return f"{fmean(every):.{digits}f}{spread}"
