"""The rows of an ablation, which are those of the paper's table 2, and its settings."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from realm_core.evaluation.tasks import EvaluateConfig
from realm_core.settings import NotNegative, Positive, SettingError, Settings, setting
from realm_core.training.config import FinetuneConfig, IctConfig, MlmConfig, PretrainConfig

BASELINE, BM25 = "baseline", "bm25"
ZERO_SHOT = "zero-shot"  # the stage that measures retrievers, which no kind of job does alone
ZERO_SHOT_TITLE = "Retrievers before fine-tuning"
STALE = 30  # refreshes are this many times rarer, as in the paper


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


class RowRun(NamedTuple):
    """A row with one seed. number: from 0, added to the seeds of pre-training and fine-tuning."""

    row: str
    number: int

    @property
    def name(self) -> str:
        """For example "realm", and "realm.2" for the second seed."""
        return named(self.row, self.number)


def named(model: str, number: int) -> str:
    """The name of a row, or of a model that rows share, with the seed of this number."""
    return f"{model}.{number + 1}" if number else model


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
        f"between the snapshots that the index is rebuilt from; for the row stale {STALE} times as many",
        unit="steps",
        ge=1,
    )
    _INDEX_MAY_STAY: ClassVar[str] = ""


class AblationFinetuneConfig(FinetuneConfig):
    """Every row starts with an untrained reader, which learns faster than one that is trained further."""

    epochs: int = setting(2, "over the questions", unit="passes", ge=1)
    pairs: NotNegative = setting(0.5, "weight of the “not here” loss; 0: as released")
    reader_lr: Positive = setting(1e-4, "peak learning rate of the reader's BERT")
    head_lr: Positive = setting(5e-4, "peak learning rate of the span scores")


class AblationConfig(Settings):
    """The settings of all stages; on disk, one section each."""

    ict: IctConfig = IctConfig()
    mlm: MlmConfig = MlmConfig()
    pretrain: AblationPretrainConfig = AblationPretrainConfig()
    finetune: AblationFinetuneConfig = AblationFinetuneConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    repeats: int = setting(
        1,
        "each row is pre-trained and fine-tuned so often, with other seeds, and its figures are means; ICT, masked "
        "words and the baseline's index are made once",
        unit="times",
        ge=1,
        le=20,
    )

    def runs(self, rows: Collection[str]) -> list[RowRun]:
        """All rows with the first seed, then all with the second: what is finished early can be compared."""
        return [RowRun(row, number) for number in range(self.repeats) for row in ROWS if row in rows]

    def finetuning(self, number: int) -> FinetuneConfig:
        return self.finetune.model_copy(update={"seed": self.finetune.seed + number})

    def pretraining(self, variant: str, number: int = 0) -> PretrainConfig:
        """The settings of one variant alone, as a budget may be too small for another, with the seed of this number."""
        differing: dict[str, dict[str, Any]] = {
            "realm": {},
            "uniform": {"masking": "uniform"},
            "span": {"masking": "span"},
            "stale": {"refresh_every": STALE * self.pretrain.refresh_every},
        }
        seed = self.pretrain.seed + number
        return PretrainConfig(**{**self.pretrain.model_dump(), **differing[variant], "seed": seed})

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
