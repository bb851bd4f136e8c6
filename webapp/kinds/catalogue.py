"""All kinds of job."""

from __future__ import annotations

from realm_core.settings import SettingError
from realm_core.training.ablation import AblationConfig
from realm_core.training.config import FinetuneConfig, IctConfig, MlmConfig, PretrainConfig, WarmstartConfig
from webapp.kinds.base import Given, Input, Kind, ParameterError
from webapp.kinds.settings import (
    AblateSettings,
    EvaluateSettings,
    ExportSettings,
    FinetuneOptions,
    IndexSettings,
    IngestSettings,
    Naming,
    ShardSettings,
    SpansSettings,
)
from webapp.models import (
    CorpusSnapshot,
    IndexGeneration,
    Job,
    JobKind,
    ModelVersion,
    Purpose,
    QuestionSet,
    Queue,
    SpanSet,
)

_MODEL = Input("model", ModelVersion, "the model to start from")
_CORPUS = Input("corpus", CorpusSnapshot, "the corpus")
_SPANS = Input("spans", SpanSet, "the salient spans of the corpus")
_LEARN = {"purpose": Purpose.LEARN}
_MEASURE = {"purpose": Purpose.MEASURE}


def _index_fits(given: Given) -> None:
    """The index is of the model's block embedder and, where there is one, of the corpus."""
    model, index = given["model"], given["index"]
    if index is None or model is None:
        return
    if index.model.block_hash != model.block_hash:
        raise ParameterError({"index": f"was built by {index.model}, which embeds blocks differently from {model}."})


def _check_ingest(given: Given) -> None:
    settings = given.settings[IngestSettings]
    if settings.source == "vital" and settings.file:
        raise ParameterError({"file": "must be empty: the source vital is a package."})
    if settings.source != "vital" and not settings.file:
        raise ParameterError({"file": f"is needed: the source {settings.source} is a file."})


def _check_pretrain(given: Given) -> None:
    _index_fits(given)
    corpus = given["corpus"]
    if given["index"].corpus_id != corpus.pk:
        raise ParameterError({"index": f"is of {given['index'].corpus}, not of {corpus}."})
    sentences = given["sentences"] or corpus
    if given["spans"].corpus_id != sentences.pk:
        raise ParameterError({"spans": f"are of {given['spans'].corpus}, not of {sentences}."})


def _check_finetune(given: Given) -> None:
    if given.settings[FinetuneOptions].retriever == "bm25":
        return
    if given["index"] is None:
        raise ParameterError({"index": "is needed, unless BM25 finds the blocks."})
    if given["index"].corpus_id != given["corpus"].pk:
        raise ParameterError({"index": f"is of {given['index'].corpus}, not of {given['corpus']}."})
    _index_fits(given)


def _check_evaluate(given: Given) -> None:
    dense = given.settings[EvaluateSettings].retriever == "dense"
    if dense and given["index"] is None:
        raise ParameterError({"index": "is needed, unless BM25 finds the blocks."})
    if not dense and (given["model"] is None or given["corpus"] is None):
        raise ParameterError({"retriever": "bm25 needs a model that reads and a corpus that is searched."})
    _index_fits(given)


def _check_ablate(given: Given) -> None:
    if given["spans"].corpus_id != given["corpus"].pk:
        raise ParameterError({"spans": f"are of {given['spans'].corpus}, not of {given['corpus']}."})
    try:
        AblationConfig.of(given.settings).check_rows(given.settings[AblateSettings].rows)
    except SettingError as error:
        raise ParameterError({error.name: error.says}) from None


KINDS: dict[str, Kind] = {
    one.kind: one
    for one in (
        Kind(
            JobKind.INGEST,
            "Ingest a corpus",
            "Read articles, clean them and pack them into blocks. The snapshot that is made can then be indexed.",
            Queue.DEFAULT,
            settings=(IngestSettings,),
            check=_check_ingest,
        ),
        Kind(
            JobKind.WARMSTART,
            "Make a first model",
            "A sentence encoder's weights, their vectors projected on the directions in which a corpus differs most.",
            Queue.DEFAULT,
            inputs=(_CORPUS,),
            settings=(Naming, WarmstartConfig),
        ),
        Kind(
            JobKind.INDEX,
            "Build an index",
            "Embed every block of a corpus with a model. What is built serves nobody before it is deployed.",
            Queue.INDEX,
            inputs=(Input("model", ModelVersion, "the model that embeds"), _CORPUS),
            settings=(IndexSettings,),
        ),
        Kind(
            JobKind.INDEX_SHARD,
            "Embed one shard of an index",
            "A part of an index build.",
            Queue.INDEX,
            settings=(ShardSettings,),
            by_hand=False,
        ),
        Kind(
            JobKind.ICT,
            "Warm up the embedder (ICT)",
            "The Inverse Cloze Task: one embedder for questions and blocks learns to which block a sentence belongs.",
            Queue.TRAIN,
            inputs=(_MODEL, _CORPUS),
            settings=(Naming, IctConfig),
        ),
        Kind(
            JobKind.MLM,
            "Warm up the encoder (MLM)",
            "Gives a model an encoder with a masked-language head, which practises without retrieval.",
            Queue.TRAIN,
            inputs=(_MODEL, _CORPUS),
            settings=(Naming, MlmConfig),
        ),
        Kind(
            JobKind.SPANS,
            "Find salient spans",
            "The names and dates of a corpus, which pre-training hides.",
            Queue.DEFAULT,
            inputs=(_CORPUS,),
            settings=(SpansSettings,),
        ),
        Kind(
            JobKind.PRETRAIN,
            "Pre-train",
            "Retriever and encoder learn together: what to look up, and how to use it, to fill a hidden name or date. "
            "A worker of the queue index rebuilds the index meanwhile.",
            Queue.TRAIN,
            inputs=(
                _MODEL,
                _CORPUS,
                Input("index", IndexGeneration, "the index of that model and corpus to begin with"),
                _SPANS,
                Input("sentences", CorpusSnapshot, "the corpus that sentences come from, if another", required=False),
            ),
            settings=(Naming, PretrainConfig),
            check=_check_pretrain,
        ),
        Kind(
            JobKind.REFRESH,
            "Rebuild the index of a pre-training",
            "A part of a pre-training.",
            Queue.INDEX,
            by_hand=False,
        ),
        Kind(
            JobKind.FINETUNE,
            "Fine-tune",
            "Retriever and reader learn from questions with answers. Block vectors stay, and the index with them.",
            Queue.TRAIN,
            inputs=(
                _MODEL,
                _CORPUS,
                Input("index", IndexGeneration, "the index of that model and corpus", required=False),
                Input("questions", QuestionSet, "the questions to learn from", many=True, limit_to=_LEARN),
            ),
            settings=(Naming, FinetuneOptions, FinetuneConfig),
            check=_check_finetune,
        ),
        Kind(
            JobKind.EVALUATE,
            "Evaluate",
            "Ask every question of a set and measure exact match, recall and calibration.",
            Queue.DEFAULT,
            inputs=(
                Input("index", IndexGeneration, "the index that is searched", required=False),
                Input("model", ModelVersion, "the model, if not the one that built the index", required=False),
                Input("corpus", CorpusSnapshot, "the corpus that BM25 searches", required=False),
                Input("questions", QuestionSet, "the questions to measure by", limit_to=_MEASURE),
            ),
            settings=(EvaluateSettings,),
            check=_check_evaluate,
        ),
        Kind(
            JobKind.ABLATE,
            "Ablate",
            "Train and measure the rows of the paper's table 2, each with the same budget.",
            Queue.TRAIN,
            inputs=(
                Input("model", ModelVersion, "the first model, as a warm start makes it"),
                _CORPUS,
                _SPANS,
                Input("questions", QuestionSet, "the questions to learn from", many=True, limit_to=_LEARN),
                Input("dev", QuestionSet, "the questions to measure by", many=True, limit_to=_MEASURE),
            ),
            settings=(AblateSettings,),
            sections=AblationConfig.sections(),
            check=_check_ablate,
        ),
        Kind(
            JobKind.EXPORT,
            "Export a model",
            "Store a model small, to be deployed or taken elsewhere.",
            Queue.DEFAULT,
            inputs=(Input("model", ModelVersion, "the model to export"),),
            settings=(Naming, ExportSettings),
        ),
    )
}


def kind_of(job: Job) -> Kind:
    """What is known of a job's kind."""
    return KINDS[job.kind]
