"""The plan of an ablation: the stages of its rows, and what these share.

    ict → mlm = the baseline → index → pretrain, four variants → index         (each once, the variants with each seed)
    combine (the retriever of one, the encoder of another) → finetune → evaluate     (each row with each seed)

A stage is a task of this package and its output, so there is one way to do each thing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from realm_core.command_line import argv
from realm_core.evaluation.tasks import Evaluate
from realm_core.index.tasks import Index
from realm_core.model.tasks import Combine
from realm_core.runs.folder import RunFolder
from realm_core.task import Task
from realm_core.training.ablation import BASELINE, BM25, ROWS, ZERO_SHOT, RowRun, named
from realm_core.training.tasks import Ablate, Finetune, Ict, Mlm, Pretrain

_BACKWARD = 3  # training on a sequence costs about three times as much as reading it


@dataclass(frozen=True)
class AblationSizes:
    """How many blocks there are, and questions to learn and, of each set, to measure by."""

    blocks: int
    asked: int
    dev_asked: dict[str, int]


@dataclass(frozen=True)
class StageId:
    """Identifies a stage. row: of a row, or of a model that rows share, with its seed (`named`). questions: the set
    that it measures by.
    """

    stage: str
    row: str = ""
    questions: str = ""

    def __str__(self) -> str:
        return self.stage + (f"-{self.row}" if self.row else "") + (f".{self.questions}" if self.questions else "")

    def labels(self) -> dict[str, str]:
        return {name: value for name, value in dataclasses.asdict(self).items() if value}


@dataclass(frozen=True)
class AblationStage:
    """A task to be run once.

    output: exists when the stage is done. unit: of the progress that counts. sequences: how many it reads, a measure
    of its work. budget: for the table. seed: of its random numbers, None if it draws none.
    """

    id: StageId
    task: Task
    output: Path
    unit: str = ""
    sequences: int = 0
    budget: str = ""
    seed: int | None = None

    @property
    def name(self) -> str:
        """For example pretrain-realm or evaluate-realm.plain-dev."""
        return str(self.id)

    @property
    def command(self) -> list[str]:
        return argv(self.task)


class AblationPlan:
    """The stages of an ablation in `output`, in an order in which they can run: `stages_of[run]` lists those of a row
    with one seed.

    A stage that several rows need is in the list of the first of them.
    """

    def __init__(self, ablate: Ablate, sizes: AblationSizes) -> None:
        self._ablate, self._sizes, self._output = ablate, sizes, ablate.output
        self._everywhere: dict[str, Any] = {"corpus": ablate.corpus, "device": ablate.device}
        self._stages: dict[str, AblationStage] = {}
        self.stages_of: dict[RowRun, list[AblationStage]] = {}
        for run in ablate.settings.runs(ablate.rows):
            before = len(self._stages)
            self._row(run)
            self.stages_of[run] = list(self._stages.values())[before:]

    @property
    def stages(self) -> list[AblationStage]:
        return list(self._stages.values())

    def run(self, name: str) -> RunFolder:
        return RunFolder(self._output / "runs" / name)

    def predictions(self, run: RowRun, dev: str) -> Path:
        return self._output / "predictions" / f"{run.name}.{dev}.jsonl"

    def _row(self, run: RowRun) -> None:
        ablate, settings, row = self._ablate, self._ablate.settings, ROWS[run.row]
        learnt_by = self._combined(run)
        found_by: dict[str, Any]
        if row.retriever == BM25:
            scale = settings.evaluate.score_scale
            found_by = {"retriever": BM25, "score_scale": scale, "bm25_cache": self._output / BM25}
        else:
            found_by = {"index": self._index(row.retriever, run.number)}
            for dev in ablate.dev:
                untuned = self._model(row.retriever, run.number)
                self._evaluate(ZERO_SHOT, untuned.name, dev, model=untuned, k=1, **found_by)
        tuned = self._output / "tuned" / run.name
        task = Finetune(
            model=learnt_by,
            questions=ablate.questions,
            exclude_titles=ablate.exclude_titles,
            settings=settings.finetuning(run.number),
            output=tuned,
            **found_by,
            **self._everywhere,
        )
        pairs = settings.finetune.epochs * self._sizes.asked * (1 + settings.finetune.k)
        self._training(run.name, task, pairs, f"{settings.finetune.epochs} × {self._sizes.asked:,} questions")
        for dev in ablate.dev:
            predictions = self.predictions(run, dev.stem)
            k = settings.evaluate.k
            self._evaluate("evaluate", run.name, dev, model=tuned, k=k, predictions=predictions, **found_by)

    def _combined(self, run: RowRun) -> Path:
        """A model whose reader starts from the encoder of another model."""
        row = ROWS[run.row]
        retriever = self._model(BASELINE if row.retriever == BM25 else row.retriever, run.number)
        encoder = self._model(row.encoder, run.number)
        output = self._output / "models" / f"{retriever.name}+{encoder.name}"
        task = Combine(retriever=retriever, encoder=encoder, output=output)
        self._add(AblationStage(StageId("combine", output.name), task, output))
        return output

    def _model(self, variant: str, number: int) -> Path:
        """The baseline, which all seeds share, or the model of a variant of pre-training."""
        ablate, settings = self._ablate, self._ablate.settings
        if variant == BASELINE:
            warm, output = self._output / "models" / "ict", self._output / "models" / BASELINE
            self._scheduled("", Ict(model=ablate.model, settings=settings.ict, output=warm, **self._everywhere), 2)
            self._scheduled("", Mlm(model=warm, settings=settings.mlm, output=output, **self._everywhere), 1)
            return output
        name = named(variant, number)
        task = Pretrain(
            model=self._model(BASELINE, number),
            index=self._index(BASELINE, number),
            spans=ablate.spans,
            settings=settings.pretraining(variant, number),
            output=self._output / "models" / name,
            builder_device=ablate.builder_device,
            **self._everywhere,
        )
        self._scheduled(name, task, 1 + 2 * task.settings.k)
        return task.output

    def _index(self, variant: str, number: int) -> Path:
        folder, blocks, model = self._output / "indexes", self._sizes.blocks, self._model(variant, number)
        task = Index(model=model, output=folder, generation=model.name, **self._everywhere)
        stage_id = StageId("index", model.name)
        self._add(AblationStage(stage_id, task, folder / model.name, "blocks", blocks, f"{blocks:,} blocks"))
        return folder / model.name

    def _scheduled(self, row: str, task: Ict | Mlm | Pretrain, per_example: int) -> None:
        steps, batch = task.settings.steps, task.settings.batch
        self._training(row, task, steps * batch * per_example, f"{steps:,} steps × {batch:,}")

    def _training(self, row: str, task: Ict | Mlm | Pretrain | Finetune, sequences: int, budget: str) -> None:
        stage_id, work = StageId(task.activity, row), _BACKWARD * sequences
        self._add(AblationStage(stage_id, task, task.output, "steps", work, budget, task.settings.seed))

    def _evaluate(self, kind: str, row: str, dev: Path, *, k: int, **fields: Any) -> None:
        # The tables have no causes, and to find them may take a second for a question.
        task = Evaluate(questions=dev, k=k, why=False, **fields, **self._everywhere)
        asked, stage_id = self._sizes.dev_asked[dev.stem], StageId(kind, row, dev.stem)
        done = self.run(str(stage_id)).result_file
        self._add(AblationStage(stage_id, task, done, "questions", asked * (1 + k), f"{asked:,} questions"))

    def _add(self, stage: AblationStage) -> None:
        self._stages.setdefault(stage.name, stage)
