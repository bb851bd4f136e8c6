"""The plan of an ablation: the rows of the paper's table 2, and the stages that they share.

    ict → mlm = the baseline → index → pretrain, four variants → index         (each once)
    combine (the retriever of one, the encoder of another) → finetune → evaluate     (each row)

A stage is a command of this package and its output, so there is one way to do each thing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from realm_core.command_line import in_toml
from realm_core.evaluation.config import EvaluateConfig
from realm_core.runs.folder import RunFolder
from realm_core.settings import SettingError, Settings, flat, setting
from realm_core.training.config import FinetuneConfig, IctConfig, MlmConfig, PretrainConfig

BASELINE, BM25 = "baseline", "bm25"
STALE = 30  # refreshes are this many times rarer, as in the paper
_BACKWARD = 3  # training on a sequence costs about three times as much as reading it


@dataclass(frozen=True)
class AblationRow:
    """retriever, encoder: the models that they are taken from; BM25 is a retriever without a model."""

    title: str
    retriever: str
    encoder: str


ROWS = {
    "realm": AblationRow("REALM", "realm", "realm"),
    "realm-retriever": AblationRow("REALM retriever + baseline encoder", "realm", BASELINE),
    "realm-encoder": AblationRow("baseline retriever + REALM encoder", BASELINE, "realm"),
    "baseline": AblationRow("baseline (ORQA)", BASELINE, BASELINE),
    "uniform": AblationRow("REALM, random uniform masks", "uniform", "uniform"),
    "span": AblationRow("REALM, random span masks", "span", "span"),
    "stale": AblationRow(f"REALM, {STALE}× stale index", "stale", "stale"),
    "bm25": AblationRow("BM25 + reader", BM25, BASELINE),
}


class AblationPretrainConfig(PretrainConfig):
    """Settings that all rows share in pre-training."""

    masking: Literal["salient", "uniform", "span"] = "salient"  # not a setting: it differs between rows
    refresh: Literal["process", "in-loop"] = setting(
        "process",
        "how the index follows the parameters. process: a builder process that training starts; in-loop: training "
        "waits for it",
    )
    # Short enough that the row `stale` gets a new index, too.
    refresh_every: int = setting(
        25,
        f"steps between the snapshots that the index is rebuilt from; for the row stale {STALE} times as many",
        ge=1,
    )

    def check_together(self) -> None:
        """The index is refreshed at least once."""
        super().check_together()
        if self.refresh_every >= self.steps:
            raise SettingError(
                "refresh_every",
                f"must be less than the {self.steps:,} steps, not {self.refresh_every:,}: the index would never be "
                "refreshed.",
            )


class AblationConfig(Settings):
    """The settings of all stages; on disk, one section each."""

    ict: IctConfig = IctConfig()
    mlm: MlmConfig = MlmConfig()
    pretrain: AblationPretrainConfig = AblationPretrainConfig()
    finetune: FinetuneConfig = FinetuneConfig()
    evaluate: EvaluateConfig = EvaluateConfig()

    def check_rows(self, names: Collection[str]) -> None:
        """Refuse a budget that is too small for one of these rows."""
        every = STALE * self.pretrain.refresh_every
        if "stale" in names and every >= self.pretrain.steps:
            raise SettingError(
                "pretrain.refresh_every",
                f"must be less, or the index of the row stale would never be refreshed: {STALE} times as many must be "
                f"less than the {self.pretrain.steps:,} steps, not {every:,}. Raise steps, lower refresh_every, or "
                "choose only other rows.",
            )


@dataclass(frozen=True)
class AblationInputs:
    """The inputs of an ablation. blocks, asked, dev_asked: the numbers of blocks and questions."""

    model: Path
    corpus: Path
    spans: Path
    questions: tuple[Path, ...]
    dev: tuple[Path, ...]
    exclude_titles: Path | None
    device: str
    builder_device: str
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
    """A command to be run once.

    command:    the activity and its options. output: exists when the stage is done.
    unit:       of the progress that counts. sequences: how many it reads, a measure of its work.
    budget:     for the table. seed: of its random numbers, None if it draws none.
    """

    id: StageId
    command: tuple[str, ...]
    output: Path
    unit: str = ""
    sequences: int = 0
    budget: str = ""
    seed: int | None = None

    @property
    def name(self) -> str:
        """For example pretrain-realm or evaluate-realm.plain-dev."""
        return str(self.id)


class AblationPlan:
    """The stages of an ablation in `output`, in an order in which they can run: `rows[name]` lists the stages of a row.

    A stage that several rows need is in the list of the first of them.
    """

    def __init__(self, names: list[str], inputs: AblationInputs, settings: AblationConfig, output: Path) -> None:
        self._inputs, self._settings, self._output = inputs, settings, output
        self._stages: dict[str, AblationStage] = {}
        self.rows: dict[str, list[AblationStage]] = {}
        for name in names:
            before = len(self._stages)
            self._row(name, ROWS[name])
            self.rows[name] = list(self._stages.values())[before:]

    @property
    def stages(self) -> list[AblationStage]:
        """All stages."""
        return list(self._stages.values())

    def run(self, name: str) -> RunFolder:
        """The run folder of a stage."""
        return RunFolder(self._output / "runs" / name)

    def predictions(self, row: str, dev: str) -> Path:
        """The predictions file of a row and a question set."""
        return self._output / "predictions" / f"{row}.{dev}.jsonl"

    def _row(self, name: str, row: AblationRow) -> None:
        inputs, settings = self._inputs, self._settings
        learnt_by = self._combined(row)
        if row.retriever == BM25:
            scale = str(settings.evaluate.score_scale)
            found_by = ["--retriever", BM25, "--score-scale", scale, "--bm25-cache", str(self._output / BM25)]
        else:
            found_by = ["--index", str(self._index(row.retriever))]
            for dev in inputs.dev:
                self._evaluate("zero-shot", row.retriever, dev, self._model(row.retriever), 1, found_by)
        more = [*found_by, "--questions", *map(str, inputs.questions)]
        if inputs.exclude_titles is not None:
            more += ["--exclude-titles", str(inputs.exclude_titles)]
        tuned = self._output / "tuned" / name
        pairs = settings.finetune.epochs * inputs.asked * (1 + settings.finetune.k)
        budget = f"{settings.finetune.epochs} × {inputs.asked:,} questions"
        self._training("finetune", name, settings.finetune, learnt_by, tuned, more, pairs, budget)
        for dev in inputs.dev:
            kept = [*found_by, "--predictions", str(self.predictions(name, dev.stem))]
            self._evaluate("evaluate", name, dev, tuned, settings.evaluate.k, kept)

    def _combined(self, row: AblationRow) -> Path:
        """A model whose reader starts from the encoder of another model."""
        retriever = BASELINE if row.retriever == BM25 else row.retriever
        parts = self._model(retriever), self._model(row.encoder)
        output = self._output / "models" / f"{retriever}+{row.encoder}"
        command = ("combine", "--retriever", str(parts[0]), "--encoder", str(parts[1]), "--output", str(output))
        self._add(AblationStage(StageId("combine", output.name), command, output))
        return output

    def _model(self, name: str) -> Path:
        """The baseline, or the model of a variant of pre-training."""
        output, settings = self._output / "models" / name, self._settings
        if name == BASELINE:
            warm = self._output / "models" / "ict"
            self._scheduled("ict", "", settings.ict, self._inputs.model, warm, [], 2)
            self._scheduled("mlm", "", settings.mlm, warm, output, [], 1)
            return output
        # The settings of this variant alone: a budget may be too small for another row.
        differing: dict[str, dict[str, Any]] = {
            "realm": {},
            "uniform": {"masking": "uniform"},
            "span": {"masking": "span"},
            "stale": {"refresh_every": STALE * settings.pretrain.refresh_every},
        }
        config = PretrainConfig(**{**settings.pretrain.model_dump(), **differing[name]})
        start = self._model(BASELINE)
        more = ["--index", str(self._index(BASELINE)), "--spans", str(self._inputs.spans)]
        more += ["--builder-device", self._inputs.builder_device]
        self._scheduled("pretrain", name, config, start, output, more, 1 + 2 * config.k)
        return output

    def _index(self, name: str) -> Path:
        """The generation of a model."""
        output = self._output / "indexes"
        command = ["index", "--model", str(self._model(name)), "--corpus", str(self._inputs.corpus)]
        command += ["--output", str(output), "--generation", name, "--device", self._inputs.device]
        blocks = self._inputs.blocks
        self._add(
            AblationStage(StageId("index", name), tuple(command), output / name, "blocks", blocks, f"{blocks:,} blocks")
        )
        return output / name

    def _scheduled(
        self,
        activity: str,
        row: str,
        config: IctConfig | MlmConfig | PretrainConfig,
        model: Path,
        output: Path,
        more: list[str],
        per_example: int,
    ) -> None:
        examples = config.steps * config.batch
        budget = f"{config.steps:,} steps × {config.batch:,}"
        self._training(activity, row, config, model, output, more, examples * per_example, budget)

    def _training(
        self,
        activity: str,
        row: str,
        config: IctConfig | MlmConfig | PretrainConfig | FinetuneConfig,
        model: Path,
        output: Path,
        more: list[str],
        sequences: int,
        budget: str,
    ) -> None:
        command = [activity, "--model", str(model), "--corpus", str(self._inputs.corpus), "--output", str(output)]
        command += [*more, "--device", self._inputs.device]
        for key, value in flat(config).items():
            command += ["--set", f"{key}={in_toml(value)}"]
        stage_id = StageId(activity, row)
        self._add(AblationStage(stage_id, tuple(command), output, "steps", _BACKWARD * sequences, budget, config.seed))

    def _evaluate(self, kind: str, row: str, dev: Path, model: Path, k: int, more: list[str]) -> None:
        command = ["evaluate", "--model", str(model), "--corpus", str(self._inputs.corpus), "--questions", str(dev)]
        command += [*more, "--k", str(k), "--device", self._inputs.device]
        asked = self._inputs.dev_asked[dev.stem]
        stage_id = StageId(kind, row, dev.stem)
        done = self.run(str(stage_id)).result_file
        self._add(AblationStage(stage_id, tuple(command), done, "questions", asked * (1 + k), f"{asked:,} questions"))

    def _add(self, stage: AblationStage) -> None:
        self._stages.setdefault(stage.name, stage)
