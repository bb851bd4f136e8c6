"""Settings of trainings: frozen dataclasses, read from TOML, with overrides from the command line."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from realm_core.errors import RealmError

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class FinetuneConfig:
    """Fine-tuning of a model on questions with answers.

    seed:                    of every draw.
    holdout:                 share of the articles whose rows are measured on and never learnt from.
    checkpoint_every:        steps between checkpoints (and held-out measures).

    retriever_epochs:        passes over the questions that train the query embedder; 0 leaves it as it is.
    retriever_lr:            peak learning rate of the query embedder.
    retriever_batch:         questions a step.

    reader_epochs:           passes over the rows that train the reader; 0 leaves it as it is.
    reader_lr:               peak learning rate of the reader's BERT.
    reader_head_lr:          peak learning rate of the span MLP, which starts from nothing.
    reader_batch_wordpieces: wordpieces a step (all pairs together).
    negative_share:          how often a row also brings a passage without an answer, from 0 to 1.
    repeat:                  how often rows of a group count in an epoch, by group name (default once).

    warmup:                  share of the steps in which the learning rate rises; then it falls linearly to zero.
    weight_decay, clip:      as in BERT: 0.01 but on LayerNorm and biases; gradient norm at most 1.
    dropout:                 in the hidden layers, not in attention.
    """

    seed: int = 1
    holdout: float = 0.05
    checkpoint_every: int = 250
    retriever_epochs: int = 3
    retriever_lr: float = 2e-5
    retriever_batch: int = 64
    reader_epochs: int = 2
    reader_lr: float = 1e-4
    reader_head_lr: float = 5e-4
    reader_batch_wordpieces: int = 5000
    negative_share: float = 0.4
    repeat: dict[str, int] = dataclasses.field(default_factory=dict)
    warmup: float = 0.06
    weight_decay: float = 0.01
    clip: float = 1.0
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in ("holdout", "negative_share", "warmup", "dropout"):
            if not 0.0 <= getattr(self, name) < 1.0 and not (name == "negative_share" and self.negative_share == 1.0):
                raise RealmError(f"{name} must be a share from 0 up to 1, not {getattr(self, name)}.")
        for name in ("checkpoint_every", "retriever_batch", "reader_batch_wordpieces"):
            if getattr(self, name) < 1:
                raise RealmError(f"{name} must be at least 1, not {getattr(self, name)}.")
        for name in ("retriever_epochs", "reader_epochs", "weight_decay"):
            if getattr(self, name) < 0:
                raise RealmError(f"{name} must not be negative, not {getattr(self, name)}.")
        for name in ("retriever_lr", "reader_lr", "reader_head_lr", "clip"):
            if getattr(self, name) <= 0:
                raise RealmError(f"{name} must be positive, not {getattr(self, name)}.")
        for group, times in self.repeat.items():
            if not isinstance(times, int) or times < 0:
                raise RealmError(f"repeat.{group} must be a whole number that is not negative, not {times!r}.")


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
