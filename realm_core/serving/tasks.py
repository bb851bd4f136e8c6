"""The tasks of one question and of one masked sentence."""

from __future__ import annotations

from pathlib import Path

from realm_core.task import Task, runtime

_CORPUS = "snapshot folder (default: found by the index's snapshot id)"


class Ask(Task):
    """Question → answer with provenance."""

    activity = "ask"
    summary = "answer one question on the command line"
    code = "realm_core.serving.asking"

    question: str = runtime(help="the question", positional=True)
    model: Path = runtime(help="model folder")
    index: Path = runtime(help="generation folder")
    corpus: Path | None = runtime(None, help=_CORPUS)
    k: int | None = runtime(None, help="to read (default: as many as the model reads over this corpus)", unit="blocks")
    as_typed: bool = runtime(False, help="do not correct its spelling")


class Fill(Task):
    """Masked sentence → what fills it."""

    activity = "fill"
    summary = "fill the masks of one sentence: without retrieval, from blocks, and marginal"
    code = "realm_core.serving.asking"

    sentence: str = runtime(help="a sentence with [MASK] where a word is missing", positional=True)
    model: Path = runtime(help="folder of a pre-trained model")
    index: Path = runtime(help="generation folder")
    corpus: Path | None = runtime(None, help=_CORPUS)
    k: int = runtime(8, help="to read, the null block counted", unit="blocks")
    truth: str | None = runtime(None, help="what stands there: how likely is it, which blocks help?")
