"""Settings of trainings: frozen dataclasses, read from TOML, with overrides from the command line."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from realm_core.errors import RealmError
from realm_core.evaluation.figures import RECALL_AT

T = TypeVar("T")
# What BM25's scores are multiplied by unless told otherwise: its scores of the best blocks lie a few units apart, those
# of f(x, z) one or two. With realm-mini, exact match on plain-dev is the same within a question from 0.3 to 2.
BM25_SCALE = 0.5


@dataclasses.dataclass(frozen=True)
class Schedule:
    """What every training of a whole corpus has in common.

    seed:             of every draw.
    steps:            of the training.
    batch:            examples a step, over all processes.
    at_once:          examples whose graph is in memory together; a larger batch is worked off in parts.
    learning_rate:    peak; it rises over the share `warmup` of the steps, then falls linearly to zero.
    weight_decay:     as in BERT, but on LayerNorm and biases. clip: gradient norm at most this.
    dropout:          in the hidden layers, not in attention.
    checkpoint_every: steps between checkpoints.
    holdout:          share of the passages that are measured on and never learnt from; at most 512 passages.
    """

    seed: int = 1
    steps: int = 1000
    batch: int = 16
    at_once: int = 16
    learning_rate: float = 3e-5
    warmup: float = 0.06
    weight_decay: float = 0.01
    clip: float = 1.0
    dropout: float = 0.1
    checkpoint_every: int = 250
    holdout: float = 0.01

    def __post_init__(self) -> None:
        for name in ("holdout", "warmup", "dropout"):
            _share(name, getattr(self, name))
        for name in ("steps", "batch", "at_once", "checkpoint_every"):
            _at_least(name, getattr(self, name), 1)
        for name in ("learning_rate", "clip"):
            _positive(name, getattr(self, name))
        _not_negative("weight_decay", self.weight_decay)
        _seed(self.seed)


@dataclasses.dataclass(frozen=True)
class IctConfig(Schedule):
    """Inverse Cloze Task: which block did this sentence come from?

    keep_sentence: how often the sentence stays in its block (paper: one time in ten).
    """

    batch: int = 64
    at_once: int = 64  # in-batch softmax: the examples of one part are each other's negatives
    learning_rate: float = 1e-4
    keep_sentence: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        _share("keep_sentence", self.keep_sentence)
        _at_least("batch", self.batch, 2)
        _at_least("at_once", self.at_once, 2)


@dataclasses.dataclass(frozen=True)
class MlmConfig(Schedule):
    """Masked-language warm-up of the encoder, without retrieval.

    mask_share: wordpieces hidden at random in each block (BERT: 0.15).
    """

    batch: int = 32
    at_once: int = 32
    learning_rate: float = 2e-4
    mask_share: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.mask_share < 1:
            raise RealmError(f"mask_share must lie between 0 and 1, not {self.mask_share}.")


@dataclasses.dataclass(frozen=True)
class PretrainConfig(Schedule):
    """REALM's pre-training.

    k:                 blocks read for a sentence, the null block counted (paper: 8).
    masking:           salient (the paper's), uniform or span (its ablations).
    loss:              paper: −log Σ_z p(z|x) Π_j p(y_j|z,x); release: −mean_j log Σ_z p(z|x) p(y_j|z,x).
    query_wordpieces:  join(x) is cut to this many around the masks (release: 96).
    pair_wordpieces:   join(x, z) is cut to this many (release: 384).
    title:             put the block's title between sentence and body (paper and release leave it out).
    refresh:           process: a builder process that this one starts; elsewhere: one that someone else starts with
                       `refresh`; in-loop: training waits for it; never.
    refresh_every:     steps between the snapshots that the index is rebuilt from (paper: about 500).
    """

    k: int = 8
    masking: str = "salient"
    loss: str = "paper"
    query_wordpieces: int = 96
    pair_wordpieces: int = 384
    title: bool = False
    refresh: str = "process"
    refresh_every: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, allowed in (
            ("masking", ("salient", "uniform", "span")),
            ("loss", ("paper", "release")),
            ("refresh", ("process", "elsewhere", "in-loop", "never")),
        ):
            _one_of(name, getattr(self, name), allowed)
        _at_least("k", self.k, 2)
        _at_least("refresh_every", self.refresh_every, 1)
        for name, low in (("query_wordpieces", 16), ("pair_wordpieces", 32)):
            if not low <= getattr(self, name) <= 512:
                raise RealmError(f"{name} must be from {low} to 512, not {getattr(self, name)}.")


@dataclasses.dataclass(frozen=True)
class FinetuneConfig:
    """Fine-tuning on questions with answers.

    seed:             of every draw.
    epochs:           passes over the questions.
    batch, at_once:   questions a step, and those whose graph is in memory together.
    k:                blocks read for a question (release: 5).
    beam:             blocks whose softmax the retriever's loss is (release: 5000); 0 takes all.
    normalisation:    how span scores become probabilities, in the reader's loss and in the model made (release: joint).
    pairs:            weight of the pairs' loss, which teaches "not here"; 0 is the released recipe.
    supply:           where the best k blocks hold no answer, read the best one that does in the last place.
    query_lr:         peak learning rate of the query embedder; 0 leaves it as it is.
    reader_lr:        peak learning rate of the reader's BERT.
    head_lr:          peak learning rate of the span MLP, which starts from nothing.
    repeat:           how often the questions of a file count in an epoch, by its name (default once).
    holdout:          share of the questions that are measured on and never learnt from.
    checkpoint_every: steps between checkpoints (and held-out measures).
    warmup:           share of the steps in which the learning rate rises; then it falls linearly to zero.
    weight_decay, clip, dropout: as in BERT; no dropout in attention.
    """

    seed: int = 1
    epochs: int = 2
    batch: int = 16
    at_once: int = 8
    k: int = 5
    beam: int = 0
    normalisation: str = "joint"
    pairs: float = 0.5
    supply: bool = True
    query_lr: float = 2e-5
    reader_lr: float = 1e-4
    head_lr: float = 5e-4
    repeat: dict[str, int] = dataclasses.field(default_factory=dict)
    holdout: float = 0.03
    checkpoint_every: int = 250
    warmup: float = 0.06
    weight_decay: float = 0.01
    clip: float = 1.0
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in ("holdout", "warmup", "dropout"):
            _share(name, getattr(self, name))
        for name in ("epochs", "batch", "at_once", "k", "checkpoint_every"):
            _at_least(name, getattr(self, name), 1)
        _one_of("normalisation", self.normalisation, ("joint", "block", "block+null"))
        for name in ("beam", "pairs", "query_lr", "weight_decay"):
            _not_negative(name, getattr(self, name))
        for name in ("reader_lr", "head_lr", "clip"):
            _positive(name, getattr(self, name))
        _seed(self.seed)
        for group, times in self.repeat.items():
            if not isinstance(times, int) or isinstance(times, bool) or times < 0:
                raise RealmError(f"repeat.{group} must be a whole number that is not negative, not {times!r}.")


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise RealmError(f"{name} must be one of {', '.join(allowed)}, not {value!r}.")


@dataclasses.dataclass(frozen=True)
class EvaluateConfig:
    """How an ablation measures. k: blocks read for a question.

    score_scale: what BM25's scores are multiplied by to be prior logits, in fine-tuning and evaluation alike.
    """

    k: int = 5
    score_scale: float = BM25_SCALE

    def __post_init__(self) -> None:
        if not 1 <= self.k <= max(RECALL_AT):  # as many as are retrieved
            raise RealmError(f"k must be from 1 to {max(RECALL_AT)}, not {self.k}.")
        if not 0 < self.score_scale < float("inf"):
            raise RealmError(f"score_scale must be positive, not {self.score_scale}.")


def _share(name: str, value: float) -> None:
    if not 0.0 <= value < 1.0:
        raise RealmError(f"{name} must be a share from 0 up to 1, not {value}.")


def _at_least(name: str, value: int, low: int) -> None:
    if value < low:
        raise RealmError(f"{name} must be at least {low}, not {value}.")


def _positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise RealmError(f"{name} must be positive and finite, not {value}.")


def _not_negative(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise RealmError(f"{name} must be finite and not negative, not {value}.")


def _seed(value: int) -> None:
    if not 0 <= value < 2**32:  # times a million, plus a step's number, it must fit into torch's 64 bits
        raise RealmError(f"seed must be from 0 to {2**32 - 1}, not {value}.")


def read_config(kind: type[T], path: Path | None, overrides: Sequence[str] = ()) -> T:
    """A configuration from a TOML file (None: defaults) and `key=value` overrides (values in TOML's notation).

    An unknown key or a value of the wrong type is a `RealmError` that names the key and what is allowed.
    """
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RealmError(f"{path} does not exist.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise RealmError(f"{path} is not valid TOML: {error}.") from None
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise RealmError(f"{override!r} is not an override; write KEY=VALUE.")
        try:
            values[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            raise RealmError(f"{override!r}: {value!r} is not a TOML value (texts need quotes).") from None
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key, value in values.items():
        if key not in fields:
            raise RealmError(f"Unknown setting {key!r}; known are {', '.join(fields)}.")
        values[key] = _checked(key, value, str(fields[key].type))
    return kind(**values)


def _checked(key: str, value: Any, wanted: str) -> Any:
    if wanted == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    types = {"int": int, "float": float, "str": str, "bool": bool, "dict[str, int]": dict}
    if not isinstance(value, types[wanted]) or (wanted == "int" and isinstance(value, bool)):
        raise RealmError(f"{key} must be of type {wanted}, not {value!r}.")
    return value
