"""The settings of each training."""

from __future__ import annotations

from typing import ClassVar, Literal

from realm_core.model.config import MASKED_PAIR_WORDPIECES, MASKED_SENTENCE_WORDPIECES, POSITIONS, Normalisation
from realm_core.settings import (
    MAX_K,
    Count,
    Counts,
    InnerShare,
    NotNegative,
    Positive,
    Seed,
    SettingError,
    Settings,
    Share,
    WholeShare,
    setting,
)
from realm_core.text.joins import TITLE_WORDPIECES

_WIDEST = 384  # width of the base model's states, which a warm start projects
_ROOM = 16  # wordpieces of join(x, z) behind x: some of the body, and [SEP]
_TITLE = TITLE_WORDPIECES + 1  # the longest title and [SEP]

Masking = Literal["salient", "uniform", "span"]

_SEED = "of all random numbers"
_TAKE = "number of questions to use of each file, by its name without the ending"
_REPEAT = "repetitions per epoch of each file's questions, by its name without the ending"
_BATCH = "per step, over all processes"
_AT_ONCE = "whose graph is in memory together; a larger batch is computed in parts"
_WARMUP = "share of the steps in which the learning rate rises; then it falls linearly to zero"
_DECAY = "AdamW's weight decay, not applied to LayerNorm and biases"
_CLIP = "largest gradient norm"
_DROPOUT = "in the hidden layers, not in attention"
_CHECKPOINT = "between checkpoints, and between measurements of the held-out share"
_METRICS = "between rows of metrics, each a mean over them; 1: a row for every step"
_METRICS_AT_MOST = 100  # steps, so that a running training reports often enough


class WarmstartConfig(Settings):
    """How a first model is made from a sentence encoder."""

    dimension: int = setting(128, "D, the length of a vector", ge=8, le=_WIDEST)
    sample: int = setting(2000, "to compute the projection from, at least as many as dimension", unit="blocks", ge=8)
    scale: Positive = setting(20.0, "f(x, z) = scale × cosine at the start")
    seed: Seed = setting(0, "of the sample, and of the reader's first span scores")
    reader_base: Literal["embedder", "all_mpnet_base_v2"] = setting(
        "embedder", "base weights of the reader: the embedder's, or MPNet-base"
    )

    def check_together(self) -> None:
        if self.sample < self.dimension:
            raise SettingError("sample", f"must be at least {self.dimension}, the dimension, not {self.sample}.")


class TrainingSettings(Settings):
    """The settings that all trainings on a corpus share."""

    seed: Seed = setting(1, _SEED)
    steps: int = setting(1000, "of training", unit="steps", ge=1)
    batch: int = setting(16, _BATCH, unit="examples", ge=1)
    at_once: int = setting(16, _AT_ONCE, unit="examples", ge=1)
    learning_rate: Positive = setting(3e-5, "peak")
    warmup: Share = setting(0.06, _WARMUP)
    weight_decay: NotNegative = setting(0.01, _DECAY)
    clip: Positive = setting(1.0, _CLIP)
    dropout: Share = setting(0.1, _DROPOUT)
    checkpoint_every: int = setting(250, _CHECKPOINT, unit="steps", ge=1)
    metrics_every: int = setting(10, _METRICS, unit="steps", ge=1, le=_METRICS_AT_MOST)
    holdout: Share = setting(
        0.01, "share of the passages held out, the same in all stages with this share; at most 512 are measured on"
    )


class IctConfig(TrainingSettings):
    """Inverse Cloze Task: find the block that a sentence came from."""

    batch: int = setting(64, _BATCH, unit="examples", ge=2)
    # In-batch softmax: the examples of one part are each other's negatives.
    at_once: int = setting(64, f"{_AT_ONCE}, whose examples are each other's negatives", unit="examples", ge=2)
    learning_rate: Positive = setting(1e-4, "peak")
    keep_sentence: Share = setting(0.1, "how often the sentence stays in its block (paper: one time in ten)")


class MlmConfig(TrainingSettings):
    """Masked-language warm-up of the encoder, without retrieval."""

    batch: int = setting(32, _BATCH, unit="examples", ge=1)
    at_once: int = setting(32, _AT_ONCE, unit="examples", ge=1)
    learning_rate: Positive = setting(2e-4, "peak; of the masked-language head five times that")
    mask_share: InnerShare = setting(0.15, "share of a block's wordpieces that are hidden (BERT: 0.15)")


class PretrainConfig(TrainingSettings):
    """REALM's pre-training."""

    k: int = setting(8, "read for a sentence, including the null block (paper: 8)", unit="blocks", ge=2, le=MAX_K)
    masking: Masking = setting(
        "salient",
        "salient: names and dates, as the paper; uniform: 15 % of the wordpieces, at most 10; span: a "
        "random run of them, at most 10",
    )
    loss: Literal["paper", "release"] = setting(
        "paper",
        "paper: −log Σ_z p(z|x) Π_j p(y_j|z,x); release: −log Σ_z p(z|x) p(y_j|z,x), the mean over "
        "all masks of the batch",
    )
    query_wordpieces: int = setting(
        MASKED_SENTENCE_WORDPIECES,
        "that a sentence is cut to, around its masks (release: 96)",
        unit="wordpieces",
        ge=16,
        le=POSITIONS - _ROOM,
    )
    pair_wordpieces: int = setting(
        MASKED_PAIR_WORDPIECES,
        f"of sentence and block together (release: 384), at least {_ROOM} more than query_wordpieces, and with title "
        f"{_TITLE} more than that",
        unit="wordpieces",
        ge=32,
        le=POSITIONS,
    )
    title: bool = setting(False, "put the block's title between sentence and body; paper and release leave it out")
    refresh: Literal["process", "elsewhere", "in-loop", "never"] = setting(
        "process",
        "how the index follows the parameters. process: training starts a builder process; elsewhere: another program "
        "starts it; in-loop: training waits for each rebuild; never: the first index stays",
    )
    refresh_every: int = setting(
        500,
        "between the snapshots that the index is rebuilt from (paper: about 500); less than steps, unless refresh is "
        "never",
        unit="steps",
        ge=1,
    )

    _INDEX_MAY_STAY: ClassVar[str] = ", set refresh to never if the first index is to stay,"

    def check_together(self) -> None:
        if self.refresh != "never" and self.refresh_every >= self.steps:
            raise SettingError(
                "refresh_every",
                f"must be less than the {self.steps:,} steps, not {self.refresh_every:,}: the index would never be "
                f"refreshed. Lower it{self._INDEX_MAY_STAY} or raise steps.",
            )
        least = self.query_wordpieces + _ROOM + (_TITLE if self.title else 0)
        if self.pair_wordpieces < least:
            behind = " and the title" if self.title else ""
            raise SettingError(
                "pair_wordpieces",
                f"must be at least {least}, so that a part of the block is read after the {self.query_wordpieces} of "
                f"query_wordpieces{behind}, not {self.pair_wordpieces}; raise it, up to {POSITIONS}, or lower "
                "query_wordpieces.",
            )


class MineConfig(Settings):
    """Reading rows from questions."""

    seed: Seed = setting(1, _SEED)
    take: Counts = setting({}, _TAKE)
    depth: int = setting(20, "retrieved, in which answers are searched for", unit="blocks", ge=1, le=100)
    read: int = setting(5, "retrieved without an answer that become “not here” rows", unit="blocks", ge=1, le=100)
    not_here: Share = setting(0.15, "probability of using each of these")
    same_article: Share = setting(0.2, "probability of using a passage of the same article without the answer")
    false_premise: Share = setting(0.3, "probability of asking the question about another article")
    window: int = setting(600, "of a passage", unit="characters", ge=100)
    agreement: Share = setting(
        0.0,
        "smallest p(answer|z, x) of the model's own reader at which a retrieved block counts as holding the answer; 0: "
        "a match of the string is enough and nothing is read",
    )
    candidates: int = setting(3, "with the answer's string that the reader chooses among", unit="blocks", ge=1, le=100)
    unanswerable_blocks: int = setting(2, "made of a question without an answer", unit="rows", ge=1, le=100)
    together: int = setting(
        0,
        "of a question, the best ones, that are learnt together; 0: rows that are learnt one by one",
        unit="blocks",
        ge=0,
        le=100,
    )


class ReaderConfig(Settings):
    """Reading comprehension: the reader alone, on questions that are each paired with one block."""

    seed: Seed = setting(1, _SEED)
    steps: int = setting(1000, "of training", unit="steps", ge=1)
    batch: int = setting(32, "per step; rows that are learnt together count as one", unit="rows", ge=1)
    at_once: int = setting(16, "whose graph is in memory together; at least those of a question", unit="rows", ge=1)
    least_blocks: int = setting(4, "read at least, of a question's that are learnt together", unit="blocks", ge=1)
    frozen_layers: Count = setting(0, "of the reader, from the first, that are not trained", unit="layers")
    low_rank: Count = setting(
        0,
        "rank of the change that each matrix is given, stored beside the weights (LoRA); a model's own change of at "
        "most this rank, in these layers, is trained further. 0: matrices change freely",
    )
    casual: Share = setting(
        0.0, "share of the questions rewritten as casually typed: without capitals, as keywords, misspelt"
    )
    teacher_share: WholeShare = setting(0.7, "weight of the divergence from the teacher in the loss, with a teacher")
    reader_lr: Positive = setting(4e-5, "peak learning rate of the reader's layers")
    head_lr: Positive = setting(5e-4, "peak learning rate of the span scores, which start untrained")
    holdout: Share = setting(0.01, "share of the questions held out, chosen by a hash of the question")
    checkpoint_every: int = setting(100, _CHECKPOINT, unit="steps", ge=1)
    metrics_every: int = setting(10, _METRICS, unit="steps", ge=1, le=_METRICS_AT_MOST)
    warmup: Share = setting(0.06, _WARMUP)
    weight_decay: NotNegative = setting(0.01, _DECAY)
    clip: Positive = setting(1.0, _CLIP)
    dropout: Share = setting(0.1, _DROPOUT)


class RetrieverConfig(Settings):
    """The query embedder alone, on questions and the blocks nearest to them."""

    seed: Seed = setting(1, _SEED)
    take: Counts = setting({}, _TAKE)
    repeat: Counts = setting({}, _REPEAT)
    epochs: int = setting(2, "over the questions of each index", unit="passes", ge=1)
    batch: int = setting(64, "per step, all searched for in one index", unit="questions", ge=2)
    right_within: int = setting(
        30, "nearest before training; one of these that holds an answer counts as right", unit="blocks", ge=1
    )
    competing: int = setting(
        100, "nearest to a question, from which its right ones are to be told", unit="blocks", ge=2, le=1000
    )
    others: Count = setting(24, "taken from each other question's nearest, to be told from as well", unit="blocks")
    low_rank: Count = setting(
        16,
        "rank of the change that each matrix is given, stored beside the weights (LoRA); a model's own change of at "
        "most this rank is trained further. 0: matrices change freely",
    )
    query_lr: Positive = setting(5e-4, "peak learning rate of the query embedder's layers; without low_rank: 2e-5")
    dense_lr: Positive = setting(1e-4, "peak learning rate of the projection to D dimensions")
    holdout: Share = setting(0.01, "share of the questions that recall is measured with, chosen by a hash")
    checkpoint_every: int = setting(250, _CHECKPOINT, unit="steps", ge=1)
    metrics_every: int = setting(10, _METRICS, unit="steps", ge=1, le=_METRICS_AT_MOST)
    warmup: Share = setting(0.03, _WARMUP)
    weight_decay: NotNegative = setting(0.01, _DECAY)
    clip: Positive = setting(1.0, _CLIP)


class FinetuneConfig(Settings):
    """Fine-tuning on questions with answers."""

    seed: Seed = setting(1, _SEED)
    epochs: int = setting(3, "over the questions", unit="passes", ge=1)
    batch: int = setting(16, _BATCH, unit="questions", ge=1)
    at_once: int = setting(8, "whose graph is in memory together", unit="questions", ge=1)
    k: int = setting(5, "read for a question (release: 5)", unit="blocks", ge=1, le=MAX_K)
    beam: Count = setting(
        0, "in the softmax of the retriever's loss (release: 5000); 0: the whole corpus", unit="blocks"
    )
    examined: int = setting(
        200,
        "of the beam that are looked at, at most, where answers are regular expressions, which are searched for in "
        "each of them",
        unit="blocks",
        ge=1,
        le=5000,  # the released beam
    )
    normalisation: Normalisation = setting(
        "block+null",
        "how span scores become probabilities, in the reader's loss and in the trained model (release: joint)",
    )
    pairs: NotNegative = setting(1.0, "weight of the “not here” loss; 0: as released")
    supply: bool = setting(
        True, "if none of the best k blocks holds an answer, replace the last by the best block that does"
    )
    query_lr: NotNegative = setting(2e-5, "peak learning rate of the query embedder; 0: not trained")
    reader_lr: Positive = setting(
        1e-5,
        "peak learning rate of the reader's BERT (an untrained reader: 1e-4; trained further so fast, it unlearns "
        "when to be silent)",
    )
    head_lr: Positive = setting(1e-5, "peak learning rate of the span scores (of an untrained reader: 5e-4)")
    repeat: Counts = setting({}, _REPEAT)
    holdout: Share = setting(0.03, "share of the questions held out, chosen by a hash of the question")
    checkpoint_every: int = setting(250, _CHECKPOINT, unit="steps", ge=1)
    metrics_every: int = setting(10, _METRICS, unit="steps", ge=1, le=_METRICS_AT_MOST)
    warmup: Share = setting(0.06, _WARMUP)
    weight_decay: NotNegative = setting(0.01, _DECAY)
    clip: Positive = setting(1.0, _CLIP)
    dropout: Share = setting(0.1, _DROPOUT)
