"""The plan of an ablation: the stages of its rows, and what these share.

    ict → mlm = the baseline → index → pretrain, four variants → index         (each once)
    combine (the retriever of one, the encoder of another) → finetune → evaluate     (each row)

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
from realm_core.training.ablation import BASELINE, BM25, ROWS, ZERO_SHOT, AblationRow
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
    """Identifies a stage. row: a row, or a model that rows share. questions: the set that it measures by."""

    stage: str
    row: str = ""
    questions: str = ""

    def __str__(self) -> str:
        return self.stage + (f"-{self.row}" if self.row else "") + (f".{self.questions}" if self.questions else "")

    def labels(self) -> dict[str, str]:
        """Labels of the stage's metrics."""
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
        """The activity and its options."""
        return argv(self.task)


class AblationPlan:
    """The stages of an ablation in `output`, in an order in which they can run: `rows[name]` lists the stages of a row.

    A stage that several rows need is in the list of the first of them.
    """

    def __init__(self, names: list[str], ablate: Ablate, sizes: AblationSizes) -> None:
        self._ablate, self._sizes, self._output = ablate, sizes, ablate.output
        self._everywhere: dict[str, Any] = {"corpus": ablate.corpus, "device": ablate.device}
        self._stages: dict[str, AblationStage] = {}
        self.rows: dict[str, list[AblationStage]] = {}
        for name in names:
            before = len(self._stages)
            self._row(name, ROWS[name])
            self.rows[name] = list(self._stages.values())[before:]

    @property
    def stages(self) -> list[AblationStage]:
        return list(self._stages.values())

    def run(self, name: str) -> RunFolder:
        return RunFolder(self._output / "runs" / name)

    def predictions(self, row: str, dev: str) -> Path:
        return self._output / "predictions" / f"{row}.{dev}.jsonl"

    def _row(self, name: str, row: AblationRow) -> None:
        ablate, settings = self._ablate, self._ablate.settings
        learnt_by = self._combined(row)
        found_by: dict[str, Any]
        if row.retriever == BM25:
            scale = settings.evaluate.score_scale
            found_by = {"retriever": BM25, "score_scale": scale, "bm25_cache": self._output / BM25}
        else:
            found_by = {"index": self._index(row.retriever)}
            for dev in ablate.dev:
                untuned = self._model(row.retriever)
                self._evaluate(ZERO_SHOT, row.retriever, dev, model=untuned, k=1, **found_by)
        tuned = self._output / "tuned" / name
        task = Finetune(
            model=learnt_by,
            questions=ablate.questions,
            exclude_titles=ablate.exclude_titles,
            settings=settings.finetune,
            output=tuned,
            **found_by,
            **self._everywhere,
        )
        pairs = settings.finetune.epochs * self._sizes.asked * (1 + settings.finetune.k)
        self._training(name, task, pairs, f"{settings.finetune.epochs} × {self._sizes.asked:,} questions")
        for dev in ablate.dev:
            predictions = self.predictions(name, dev.stem)
            k = settings.evaluate.k
            self._evaluate("evaluate", name, dev, model=tuned, k=k, predictions=predictions, **found_by)

    def _combined(self, row: AblationRow) -> Path:
        """A model whose reader starts from the encoder of another model."""
        retriever = BASELINE if row.retriever == BM25 else row.retriever
        output = self._output / "models" / f"{retriever}+{row.encoder}"
        task = Combine(retriever=self._model(retriever), encoder=self._model(row.encoder), output=output)
        self._add(AblationStage(StageId("combine", output.name), task, output))
        return output

    def _model(self, name: str) -> Path:
        """The baseline, or the model of a variant of pre-training."""
        ablate, settings = self._ablate, self._ablate.settings
        output = self._output / "models" / name
        if name == BASELINE:
            warm = self._output / "models" / "ict"
            self._scheduled("", Ict(model=ablate.model, settings=settings.ict, output=warm, **self._everywhere), 2)
            self._scheduled("", Mlm(model=warm, settings=settings.mlm, output=output, **self._everywhere), 1)
            return output
        task = Pretrain(
            model=self._model(BASELINE),
            index=self._index(BASELINE),
            spans=ablate.spans,
            settings=settings.pretraining(name),
            output=output,
            builder_device=ablate.builder_device,
            **self._everywhere,
        )
        self._scheduled(name, task, 1 + 2 * task.settings.k)
        return output

    def _index(self, name: str) -> Path:
        folder, blocks = self._output / "indexes", self._sizes.blocks
        task = Index(model=self._model(name), output=folder, generation=name, **self._everywhere)
        stage_id = StageId("index", name)
        self._add(AblationStage(stage_id, task, folder / name, "blocks", blocks, f"{blocks:,} blocks"))
        return folder / name

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
