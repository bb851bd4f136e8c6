"""The tasks of training and of what prepares it. Their settings are in `config.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from realm_core.errors import quoted
from realm_core.evaluation.tasks import BM25_SCALE
from realm_core.index.tasks import BY_INDEX, DEVICE, LIVING, STATE, check_index, unused_for
from realm_core.model.tasks import NAMING
from realm_core.settings import Limit, Name, Positive, SettingError, setting
from realm_core.task import (
    CorpusFolder,
    IndexFolder,
    JobPart,
    ModelFolder,
    QuestionsToLearn,
    QuestionsToMeasure,
    SpansFolder,
    Task,
    artefact,
    runtime,
)
from realm_core.training.ablation import ROWS, AblationConfig
from realm_core.training.config import (
    FinetuneConfig,
    IctConfig,
    MineConfig,
    MlmConfig,
    PretrainConfig,
    ReaderConfig,
    RetrieverConfig,
    WarmstartConfig,
)

_START = "the model to start from"
_MAKE = "model folder to make"
_MODEL_GROUP = "A model"
_LEAVE_OUT = "neither read nor train on articles that question sets for measuring are about"
_EXCLUDED = "JSON list of articles that are neither read nor trained on"


def _check_names(questions: Sequence[Path], **settings: Mapping[str, int]) -> None:
    """SettingError if one of these settings names a question file that is not given."""
    names = [path.stem for path in questions if path.stem]  # none: a form that is filled in wrong, where that is said
    for setting_name, counts in settings.items():
        for unknown in sorted(set(counts) - set(names)) if names else ():
            says = f"names no question file that is given: {quoted(unknown)}; there are {', '.join(names)}."
            raise SettingError(setting_name, says)


class _Training(Task):
    """A training that a worker runs, on all free devices of its machine."""

    group = _MODEL_GROUP
    queue = "train"
    makes = "model"
    distributed = True


class Warmstart(Task):
    """Sentence encoder → first model."""

    activity = kind = "warmstart"
    summary = "make a first model from a sentence encoder's weights"
    code = "realm_core.training.warmstart"
    title = "Make a first model"
    about = "A sentence encoder's weights, with vectors projected onto a corpus's principal directions."
    group = _MODEL_GROUP
    queue = "default"
    makes = "model"

    corpus: CorpusFolder = artefact("the corpus")
    name: Name = setting("", NAMING, flag="")
    settings: WarmstartConfig = WarmstartConfig()
    output: Path = runtime(help=_MAKE)


class Ict(_Training):
    """Model and corpus → model with a warm embedder."""

    activity = kind = "ict"
    summary = "warm up the embedder: which block did this sentence come from?"
    code = "realm_core.training.ict"
    title = "Warm up the embedder (ICT)"
    about = "The Inverse Cloze Task: one embedder for questions and blocks learns to which block a sentence belongs."

    model: ModelFolder = artefact(_START)
    corpus: CorpusFolder = artefact("the corpus")
    name: Name = setting("", NAMING, flag="")
    settings: IctConfig = IctConfig()
    output: Path = runtime(help=_MAKE)
    device: str = runtime("auto", help=DEVICE)


class Mlm(_Training):
    """Model and corpus → model with a warm encoder."""

    activity = kind = "mlm"
    summary = "warm up the encoder: fill masks without retrieval"
    code = "realm_core.training.mlm"
    title = "Warm up the encoder (MLM)"
    about = "Gives a model an encoder with a masked-language head, trained without retrieval."

    model: ModelFolder = artefact(_START)
    corpus: CorpusFolder = artefact("the corpus")
    name: Name = setting("", NAMING, flag="")
    settings: MlmConfig = MlmConfig()
    output: Path = runtime(help=_MAKE)
    device: str = runtime("auto", help=DEVICE)


class Pretrain(_Training):
    """Model, corpus, index and spans → pre-trained model."""

    activity = kind = "pretrain"
    summary = "pre-train retriever and encoder: fill masks with what is retrieved"
    code = "realm_core.training.pretrain"
    title = "Pre-train"
    about = (
        "Retriever and encoder learn together: what to retrieve, and how to use it, to fill a hidden name or date. "
        "A worker of the queue index rebuilds the index meanwhile."
    )

    model: ModelFolder = artefact(_START)
    corpus: CorpusFolder | None = artefact("the corpus", job_needs=True, found=BY_INDEX, default=None)
    index: IndexFolder = artefact("the first index, of that model and corpus", of=("model", "corpus"))
    spans: SpansFolder = artefact("the salient spans of the corpus", of=("sentences", "corpus"))
    sentences: CorpusFolder | None = artefact("the corpus that sentences come from, if it is another", default=None)
    name: Name = setting("", NAMING, flag="")
    settings: PretrainConfig = PretrainConfig()
    output: Path = runtime(help=_MAKE)
    device: str = runtime("auto", help=DEVICE)
    builder_device: str = runtime("auto", help="of the builder process (refresh = process); auto: an unused GPU")

    def beside(self) -> Sequence[JobPart]:
        """The builder of its index, if the settings need one."""
        return [JobPart(Refresh.kind, {})] if self.settings.refresh == "process" else []

    def as_job(self) -> Task:
        """The builder is a job of its own, so the trainer expects another process to build."""
        if not self.beside():
            return self
        return self.model_copy(update={"settings": self.settings.model_copy(update={"refresh": "elsewhere"})})


class Refresh(Task):
    """The builder of a pre-training's index, which works in the run folder of that pre-training."""

    activity = kind = "refresh"
    summary = "rebuild the index of a running pre-training, again and again"
    code = "realm_core.training.refresh"
    title = "Rebuild the index of a pre-training"
    about = "A part of a pre-training."
    queue = "index"
    by_hand = False
    companion = True
    yields = 9  # its trainer comes first

    trainer_run: Path = runtime(help="run folder of the training to serve")
    corpus: Path = runtime(help="snapshot folder")
    device: str = runtime("auto", help=DEVICE)

    def within(self, parent: Task, run: Path) -> Task:
        """What it builds belongs to the pre-training, and is removed when that ends."""
        assert isinstance(parent, Pretrain) and parent.corpus is not None
        return Refresh(trainer_run=run, corpus=parent.corpus)


class Mine(Task):
    """Questions and an index → reading rows."""

    activity = "mine"
    summary = "pair questions with blocks: training data of the reader"
    code = "realm_core.training.mine"

    model: Path = runtime(help="model folder whose query embedder retrieves")
    index: Path = runtime(help="generation of that model and corpus")
    corpus: Path | None = runtime(None, help="snapshot folder (default: found by the index's snapshot id)")
    questions: tuple[Path, ...] = runtime(help="question files (JSON lines)")
    unanswerable: tuple[Path, ...] = runtime((), help="files of questions without an answer (`[]`)")
    without: tuple[Path, ...] = runtime((), help="question files whose questions are left out")
    exclude_titles: Path | None = runtime(None, help="JSON list of articles that are not trained on")
    output: Path = runtime(help="file of reading rows to make")
    settings: MineConfig = MineConfig()


class TrainReader(Task):
    """Reading rows → model with a trained reader."""

    activity = "train-reader"
    summary = "train the reader on questions paired with one block each"
    code = "realm_core.training.train_reader"

    model: Path = runtime(help="model folder to start from")
    rows: tuple[Path, ...] = runtime(help="files of reading rows (JSON lines)")
    output: Path = runtime(help=_MAKE)
    teacher: Path | None = runtime(None, help="model folder whose reader is the teacher")
    settings: ReaderConfig = ReaderConfig()
    device: str = runtime("auto", help=DEVICE)


class TrainRetriever(_Training):
    """Questions and indexes → model with a trained query embedder."""

    activity = kind = "train-retriever"
    summary = "train the query embedder on questions and the blocks nearest to them"
    code = "realm_core.training.train_retriever"
    title = "Train the retriever"
    about = (
        "The query embedder alone learns from questions with answers which blocks to find. Nothing is read, so it "
        "takes minutes where fine-tuning takes hours. Block vectors stay the same, and the indexes valid."
    )
    distributed = False

    model: ModelFolder = artefact(_START)
    index: tuple[IndexFolder, ...] = artefact(
        "indexes of that model, with what was edited above them; each question is searched for in all of them",
        of=("model",),
    )
    questions: tuple[QuestionsToLearn, ...] = artefact("the questions to train on")
    name: Name = setting("", NAMING, flag="")
    leave_out_measured: bool = setting(True, _LEAVE_OUT, flag="")
    settings: RetrieverConfig = RetrieverConfig()
    without: tuple[Path, ...] = runtime((), help="question files whose questions are left out")
    exclude_titles: Path | None = runtime(None, help=_EXCLUDED)
    state: tuple[Path, ...] = runtime((), help=f"of each index: {STATE}")
    living: Path | None = runtime(None, help=LIVING)
    output: Path = runtime(help=_MAKE)
    device: str = runtime("auto", help=DEVICE)

    def check_together(self) -> None:
        if len(self.state) not in (0, len(self.index)):
            raise SettingError("state", "must name as many as there are indexes, in their order.")
        _check_names(self.questions, take=self.settings.take, repeat=self.settings.repeat)


class Finetune(_Training):
    """Model, corpus and questions → fine-tuned model."""

    activity = kind = "finetune"
    summary = "train retriever and reader from questions with answers"
    code = "realm_core.training.finetune"
    title = "Fine-tune"
    about = (
        "Retriever and reader learn from questions with answers, hundreds or better thousands of them. Block vectors "
        "stay the same, and the index valid. Calibrate the model that is made: it is silent too seldom."
    )

    model: ModelFolder = artefact(_START)
    corpus: CorpusFolder | None = artefact("the corpus", job_needs=True, found=BY_INDEX, default=None)
    index: IndexFolder | None = artefact(
        "the index of that model and corpus, with what was edited above it", of=("model", "corpus"), default=None
    )
    questions: tuple[QuestionsToLearn, ...] = artefact("the questions to train on")
    name: Name = setting("", NAMING, flag="")
    retriever: Literal["dense", "bm25"] = setting("dense", "how blocks are retrieved: by the model, or by BM25")
    score_scale: Positive = setting(BM25_SCALE, "factor that makes BM25's scores prior logits")
    leave_out_measured: bool = setting(True, _LEAVE_OUT, flag="")
    settings: FinetuneConfig = FinetuneConfig()
    exclude_titles: Path | None = runtime(None, help=_EXCLUDED)
    bm25_cache: Path | None = runtime(None, help="folder to cache BM25's index in")
    state: Path | None = runtime(None, help=STATE)
    living: Path | None = runtime(None, help=LIVING)
    output: Path = runtime(help=_MAKE)
    device: str = runtime("auto", help=DEVICE)

    def unused(self) -> Mapping[str, str]:
        return unused_for(self.retriever)

    def check_together(self) -> None:
        check_index(self.retriever, self.index)
        _check_names(self.questions, repeat=self.settings.repeat)


def _rows(names: list[str]) -> list[str]:
    if not 0 < len(names) == len(set(names) & ROWS.keys()):
        raise ValueError("other rows, or the same twice")
    return names


_ROWS = Limit(
    f"one or more of {', '.join(ROWS)}, each once",
    choices=tuple(ROWS),
    called={name: row.title for name, row in ROWS.items()},
)


class Ablate(Task):
    """First model, corpus, spans and questions → the paper's table 2. Intermediate results serve only this."""

    activity = kind = "ablate"
    summary = "the paper's ablations on any corpus: train and measure each, in a table"
    code = "realm_core.training.ablate"
    title = "Ablate"
    about = "Train and measure the rows of the paper's table 2, each with the same budget."
    group = "How good it is"
    queue = "train"
    leaves = "ablation"
    devices = 2  # one for what trains, one for the builder of its index

    model: ModelFolder = artefact("the first model, made by a warm start")
    corpus: CorpusFolder = artefact("the corpus")
    spans: SpansFolder = artefact("the salient spans of the corpus", of=("corpus",))
    questions: tuple[QuestionsToLearn, ...] = artefact("the questions to train on")
    dev: tuple[QuestionsToMeasure, ...] = artefact("the questions to measure by")
    rows: Annotated[list[str], _ROWS, AfterValidator(_rows)] = setting(
        list(ROWS), "rows of the paper's table 2, and BM25; each is trained and measured, shared stages once"
    )
    settings: AblationConfig = AblationConfig()
    exclude_titles: Path | None = runtime(None, help=_EXCLUDED)
    output: Path = runtime(help="folder for everything that is made")
    device: str = runtime("auto", help=DEVICE)
    builder_device: str = runtime("auto", help="of pre-training's builder process")

    def check_together(self) -> None:
        self.settings.check_rows(self.rows)
        _check_names(self.questions, **{"finetune.repeat": self.settings.finetune.repeat})

    @classmethod
    def kept(cls, result: dict[str, Any]) -> dict[str, Any]:
        """The table; the commands that made it, with their paths, stay in the run folder.

        questions becomes a list of (name, number), because a database may reorder an object's keys.
        """
        stages = [{name: value for name, value in one.items() if name != "command"} for one in result["stages"]]
        return {**result, "questions": list(result["questions"].items()), "stages": stages}
