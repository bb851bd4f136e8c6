"""The tasks of measuring, fitting and comparing, and the settings of an evaluation within an ablation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from realm_core.index.tasks import BY_INDEX, DEVICE, LIVING, STATE, check_index, unused_for
from realm_core.model.tasks import NAMING, OWN
from realm_core.settings import MAX_K, Count, Name, Positive, SettingError, Settings, Share, setting
from realm_core.task import CorpusFolder, IndexFolder, ModelFolder, QuestionsToMeasure, Task, artefact, runtime

# Default factor of BM25's scores: BM25's scores of the best blocks differ by a few units, those of f(x, z) by one or
# two. With realm-mini, exact match on plain-dev differs by at most one question from 0.3 to 2.
BM25_SCALE = 0.5
OWN_K = "read for a question; 0: as many as the model reads over this corpus"
LEXICAL = "weight of the lexical score in the prior (default: the model's own)"


class EvaluateConfig(Settings):
    """The settings of evaluation in an ablation."""

    k: int = setting(5, "read for a question", unit="blocks", ge=1, le=MAX_K)
    score_scale: Positive = setting(
        BM25_SCALE, "factor that makes BM25's scores prior logits, in fine-tuning and evaluation"
    )


class Evaluate(Task):
    """Model, index and questions → figures. A job uses the model and corpus of the index unless others are named."""

    activity = kind = "evaluate"
    summary = "measure exact match and recall on a question file"
    code = "realm_core.evaluation.evaluate"
    title = "Evaluate"
    about = "Ask every question of a set and measure exact match, recall and calibration."
    group = "How good it is"
    queue = "default"
    makes = "evaluation"

    index: IndexFolder | None = artefact(
        "the index that is searched, with what was edited above it", of=("model",), default=None
    )
    model: ModelFolder | None = artefact("the model, if not the one that built the index", default=None)
    corpus: CorpusFolder | None = artefact("the corpus that BM25 searches", found=BY_INDEX, default=None)
    questions: QuestionsToMeasure = artefact("the questions to measure by")
    retriever: Literal["dense", "bm25"] = setting("dense", "what retrieves blocks: the model, or BM25 as the baseline")
    k: int = setting(0, OWN_K, unit="blocks", ge=0, le=MAX_K)
    normalisation: Literal["the model's own", "joint", "block", "block+null"] = setting(
        OWN, "how span scores become probabilities"
    )
    score_scale: Positive = setting(BM25_SCALE, "factor that makes BM25's scores prior logits")
    as_typed: bool = setting(False, "do not correct the spelling of questions")
    sample: Count = setting(0, "to ask, the same ones every time; 0: all", unit="questions")
    why: bool = setting(
        True,
        "find why each answer was right or wrong: not in the corpus, not retrieved, misread, outweighed or withheld",
    )
    bm25_cache: Path | None = runtime(None, help="folder to cache BM25's index in")
    lexical_weight: float | None = runtime(None, help=LEXICAL, ge=0)
    state: Path | None = runtime(None, help=STATE)
    living: Path | None = runtime(None, help=LIVING)
    device: str = runtime("auto", help=DEVICE)
    predictions: Path | None = runtime(None, help="file of predictions, continued if it exists")
    plot: Path | None = runtime(None, help="draw the reliability diagram, an SVG")
    as_json: bool = runtime(False, help="print the figures as JSON", flag="--json")

    def unused(self) -> Mapping[str, str]:
        return unused_for(self.retriever)

    def check_together(self) -> None:
        check_index(self.retriever, self.index)
        if self.retriever == "bm25" and (self.model is None or self.corpus is None):
            raise SettingError("retriever", "bm25 needs a model to read with and a corpus to search.")

    @classmethod
    def kept(cls, result: dict[str, Any]) -> dict[str, Any]:
        names = ("n", "exact_match", "recall@5", "answered_unanswerable", "ece", "ms_per_question")
        return {name: result[name] for name in names if name in result}


class Calibrate(Task):
    """Model, index and questions → model with calibrated probabilities."""

    activity = kind = "calibrate"
    summary = "fit temperatures, confidence and the least confidence of an answer on questions"
    code = "realm_core.evaluation.calibrate"
    title = "Calibrate"
    about = (
        "When to be silent, and how sure an answer is, fitted on questions with and without answers. Training makes "
        "both wrong: calibrate the model that it made before you deploy it."
    )
    group = "A model"
    queue = "default"
    makes = "model"

    model: ModelFolder = artefact("the model to calibrate")
    index: IndexFolder = artefact("the index that is searched, with what was edited above it", of=("model",))
    corpus: Path | None = runtime(None, help="snapshot folder (default: found by the index's snapshot id)")
    questions: tuple[QuestionsToMeasure, ...] = artefact(
        "with answers and without, a hundred of each or more; figures on the same questions are flattered afterwards"
    )
    unanswerable: tuple[Path, ...] = runtime((), help="further question files whose questions have no answers (`[]`)")
    other_index: tuple[Path, ...] = runtime(
        (), help="generation folders of other corpora; what is fitted there holds for every corpus but the first"
    )
    other_corpus: tuple[Path, ...] = runtime((), help="their snapshot folders (default: found by the snapshot ids)")
    other_questions: tuple[Path, ...] = runtime((), help="question files that are asked of each of these corpora")
    name: Name = setting("", NAMING, flag="")
    allowed: Share = setting(0.04, "share of the questions without an answer that may be answered")
    k: int = setting(0, OWN_K, unit="blocks", ge=0, le=MAX_K)
    output: Path = runtime(help="model folder to make")
    lexical_weight: float | None = runtime(None, help=LEXICAL, ge=0)
    state: Path | None = runtime(None, help=STATE)
    living: Path | None = runtime(None, help=LIVING)
    device: str = runtime("auto", help=DEVICE)

    def check_together(self) -> None:
        if bool(self.other_index) != bool(self.other_questions):
            raise SettingError("other_questions", "and an index of the other corpus need each other.")
        if self.other_corpus and len(self.other_corpus) != len(self.other_index):
            raise SettingError("other_corpus", "must name a snapshot for each index of --other-index, or none.")

    @classmethod
    def kept(cls, result: dict[str, Any]) -> dict[str, Any]:
        """How it does on its questions: right answers by set, and how many without an answer are answered."""
        own = result["own"]
        return {"answered_right": own["right"], "answered_none": own["answered_unanswerable"]}


class Compare(Task):
    """Predictions → tables."""

    activity = "compare"
    summary = "tables of several evaluations, with significance"
    code = "realm_core.evaluation.compare"

    predictions: tuple[Path, ...] = runtime(help="files of predictions, made by `evaluate`", positional=True)
    why_plot: Path | None = runtime(None, help="draw the causes found by `evaluate`, a bar per file, as SVG")
    coverage_plot: Path | None = runtime(
        None, help="draw the exact match of the most confident answers by their share of the questions, as SVG"
    )
