"""The tasks of finished models."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from realm_core.settings import Count, Name, Positive, SettingError, Share, setting
from realm_core.task import ModelFolder, Task, artefact, runtime

OWN = "the model's own"  # normalisation
NAMING = "what the new model is called; empty: named after the kind of job and the day"


class Import(Task):
    """Released weights → model."""

    activity = "import"
    summary = "make a model of weights as REALM was released"
    code = "realm_core.model.released"

    embedder: Path = runtime(help="folder of the pre-trained embedder: of blocks")
    openqa: Path | None = runtime(None, help="folder of a fine-tuned embedder of questions with its reader")
    reader: Path | None = runtime(None, help="folder of a reader alone")
    encoder: Path | None = runtime(None, help="folder of the pre-trained encoder, to go on pre-training or to fill")
    output: Path = runtime(help="model folder to make")

    def check_together(self) -> None:
        if self.openqa is not None and self.reader is not None:
            raise SettingError("reader", "must be left out where --openqa brings one.")


class Combine(Task):
    """The parts of two models → model."""

    activity = "combine"
    summary = "the retriever of one model with the encoder of another"
    code = "realm_core.model.combine"

    retriever: Path = runtime(help="model folder that the embedders come from")
    encoder: Path | None = runtime(None, help="model folder that encoder and reader come from")
    reader: tuple[Path, ...] = runtime(
        (), help="model folders that the reader alone comes from; of several, the mean of their weights"
    )
    shares: tuple[Positive, ...] = runtime((), help="share of each reader in the mean (default: equal)")
    rank: Count = runtime(
        0, help="largest rank of the mean of low-rank changes of the same weights; 0: their ranks add up"
    )
    output: Path = runtime(help="model folder to make")

    def check_together(self) -> None:
        if (self.encoder is None) == (not self.reader):
            raise SettingError("encoder", "or --reader is needed, and not both.")
        if self.shares and len(self.shares) != len(self.reader):
            raise SettingError("shares", f"must be one for each of the {len(self.reader)} readers.")


class Export(Task):
    """Model → smaller model. The block embedder stays as it is, so that indexes fit the new model, too."""

    activity = "pack"
    summary = "store a model small: what changed, in float16 or int8"
    code = "realm_core.model.pack"
    kind = "export"
    title = "Export a model"
    about = "Store a model small, to be deployed or taken elsewhere."
    group = "A model"
    queue = "default"
    makes = "model"

    model: ModelFolder = artefact("the model to export")
    name: Name = setting("", NAMING)
    query: Literal["float16", "int8", "float32", "delta4"] = setting("float16", "storage of the query embedder")
    # Rounding the block embedder would make it another one, and every index built with it useless; it is small, as
    # long as its BERT is the base's.
    block: Literal["float32", "float16", "int8"] = runtime("float32", help="storage of the block embedder")
    reader: Literal["float16", "int8", "float32", "delta4"] = setting("float16", "storage of the reader")
    normalisation: Literal["the model's own", "joint", "block", "block+null"] = setting(
        OWN, "how the exported model reads"
    )
    min_probability: Share | None = setting(
        None,
        "an answer whose share against “not here” is below this is not given, in place of the least confidence; "
        "empty: the model's own limits",
    )
    output: Path = runtime(help="model folder to make")

    @classmethod
    def kept(cls, result: dict[str, Any]) -> dict[str, Any]:
        return {"bytes": sum(path.stat().st_size for path in Path(result["path"]).iterdir())}
