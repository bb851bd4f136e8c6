"""What can be set of each training."""

from __future__ import annotations

from dataclasses import dataclass

from realm_core.model.config import MASKED_PAIR_WORDPIECES, MASKED_SENTENCE_WORDPIECES, NORMALISATIONS, POSITIONS
from realm_core.settings import (
    INNER_SHARE,
    NOT_NEGATIVE,
    POSITIVE,
    SEED,
    SHARE,
    WHOLE_SHARE,
    SettingError,
    Settings,
    at_least,
    between,
    one_of,
    setting,
)
from realm_core.text.joins import TITLE_WORDPIECES

_WIDEST = 384  # of the base model's states, which a warm start projects
_ROOM = 16  # wordpieces of join(x, z) behind x: some of the body, and [SEP]
_TITLE = TITLE_WORDPIECES + 1  # the longest title and [SEP]

_SEED = "of every draw"
_BATCH = "examples a step, over all processes"
_AT_ONCE = "examples whose graph is in memory together; a larger batch is worked off in parts"
_WARMUP = "share of the steps in which the learning rate rises; then it falls linearly to zero"
_DECAY = "AdamW's decay, not of LayerNorm and biases"
_CLIP = "largest gradient norm"
_DROPOUT = "in the hidden layers, not in attention"
_CHECKPOINT = "steps between checkpoints, and between measures of the held-out share"
_METRICS = "steps between rows of metrics and of progress, each a mean over them; 1: a row for every step"
_METRICS_LIMIT = between(1, 100)  # whoever watches wants to see that a training goes on


@dataclass(frozen=True)
class WarmstartConfig(Settings):
    """How a first model is made of a sentence encoder."""

    dimension: int = setting(128, "D, the length of a vector", between(8, _WIDEST))
    sample: int = setting(2000, "blocks looked at, not fewer than dimension", at_least(8))
    scale: float = setting(20.0, "f(x, z) = scale × cosine at the start", POSITIVE)
    seed: int = setting(0, "of the sample, and of the span scores that the reader starts with", SEED)
    reader_base: str = setting(
        "embedder", "base weights of the reader: the embedder's, or MPNet-base", one_of("embedder", "all_mpnet_base_v2")
    )

    def check_together(self) -> None:
        """There are as many blocks as directions at least."""
        if self.sample < self.dimension:
            raise SettingError("sample", f"must be at least {self.dimension}, the dimension, not {self.sample}.")


@dataclass(frozen=True)
class Schedule(Settings):
    """What every training of a whole corpus has in common."""

    seed: int = setting(1, _SEED, SEED)
    steps: int = setting(1000, "of the training", at_least(1))
    batch: int = setting(16, _BATCH, at_least(1))
    at_once: int = setting(16, _AT_ONCE, at_least(1))
    learning_rate: float = setting(3e-5, "peak", POSITIVE)
    warmup: float = setting(0.06, _WARMUP, SHARE)
    weight_decay: float = setting(0.01, _DECAY, NOT_NEGATIVE)
    clip: float = setting(1.0, _CLIP, POSITIVE)
    dropout: float = setting(0.1, _DROPOUT, SHARE)
    checkpoint_every: int = setting(250, _CHECKPOINT, at_least(1))
    metrics_every: int = setting(10, _METRICS, _METRICS_LIMIT)
    holdout: float = setting(
        0.01,
        "share of the passages never learnt from, the same in all stages of this share; at most 512 are measured on",
        SHARE,
    )


@dataclass(frozen=True)
class IctConfig(Schedule):
    """Inverse Cloze Task: which block did this sentence come from?"""

    batch: int = setting(64, _BATCH, at_least(2))
    # In-batch softmax: the examples of one part are each other's negatives.
    at_once: int = setting(64, f"{_AT_ONCE}, whose examples are each other's negatives", at_least(2))
    learning_rate: float = setting(1e-4, "peak", POSITIVE)
    keep_sentence: float = setting(0.1, "how often the sentence stays in its block (paper: one time in ten)", SHARE)


@dataclass(frozen=True)
class MlmConfig(Schedule):
    """Masked-language warm-up of the encoder, without retrieval."""

    batch: int = setting(32, _BATCH, at_least(1))
    at_once: int = setting(32, _AT_ONCE, at_least(1))
    learning_rate: float = setting(2e-4, "peak; of the masked-language head five times that", POSITIVE)
    mask_share: float = setting(0.15, "wordpieces hidden in each block (BERT: 0.15)", INNER_SHARE)


@dataclass(frozen=True)
class PretrainConfig(Schedule):
    """REALM's pre-training."""

    k: int = setting(8, "blocks read for a sentence, the null block counted (paper: 8)", at_least(2))
    masking: str = setting(
        "salient",
        "salient: names and dates, as the paper; uniform: 15 % of the wordpieces, at most 10; span: a "
        "random run of them, at most 10",
        one_of("salient", "uniform", "span"),
    )
    loss: str = setting(
        "paper",
        "paper: −log Σ_z p(z|x) Π_j p(y_j|z,x); release: −log Σ_z p(z|x) p(y_j|z,x), the mean over "
        "all masks of the batch",
        one_of("paper", "release"),
    )
    query_wordpieces: int = setting(
        MASKED_SENTENCE_WORDPIECES,
        "a sentence is cut to this many around its masks (release: 96)",
        between(16, POSITIONS - _ROOM),
    )
    pair_wordpieces: int = setting(
        MASKED_PAIR_WORDPIECES,
        f"the same of sentence and block together (release: 384), {_ROOM} more than query_wordpieces at least, and "
        f"with title {_TITLE} more than that",
        between(32, POSITIONS),
    )
    title: bool = setting(False, "put the block's title between sentence and body; paper and release leave it out")
    refresh: str = setting(
        "process",
        "how the index follows the parameters. process: a builder process that this one starts; elsewhere: one that "
        "someone else starts; in-loop: training waits for it; never: the first index stays",
        one_of("process", "elsewhere", "in-loop", "never"),
    )
    refresh_every: int = setting(
        500, "steps between the snapshots that the index is rebuilt from (paper: about 500)", at_least(1)
    )

    def check_together(self) -> None:
        """The sentence leaves room for some of a block."""
        least = self.query_wordpieces + _ROOM + (_TITLE if self.title else 0)
        if self.pair_wordpieces < least:
            behind = " and the title" if self.title else ""
            raise SettingError(
                "pair_wordpieces",
                f"must be at least {least}, so that some of a block is read behind the {self.query_wordpieces} of "
                f"query_wordpieces{behind}, not {self.pair_wordpieces}; raise it, up to {POSITIONS}, or lower "
                "query_wordpieces.",
            )


@dataclass(frozen=True)
class MineConfig(Settings):
    """Reading rows from questions."""

    seed: int = setting(1, _SEED, SEED)
    take: dict[str, int] = setting({}, "how many questions of a file are taken, by its name without the ending")
    depth: int = setting(20, "blocks retrieved in which answers are looked for", between(1, 100))
    read: int = setting(5, "blocks retrieved that are set against the question where they hold none", between(1, 100))
    not_here: float = setting(0.15, "how often each of these is taken", SHARE)
    same_article: float = setting(0.2, "how often a passage of the same article without the answer is taken", SHARE)
    false_premise: float = setting(0.3, "how often the question is asked of another article", SHARE)
    window: int = setting(600, "characters of a passage that are read", at_least(100))
    agreement: float = setting(
        0.0,
        "least p(answer|z, x) of the model's own reader at which a retrieved block counts as holding the answer; 0: "
        "its string is enough and nothing is read",
        SHARE,
    )
    candidates: int = setting(3, "blocks with the answer's string that the reader chooses among", between(1, 100))
    unanswerable_blocks: int = setting(2, "blocks that a question without an answer is set against", between(1, 100))


@dataclass(frozen=True)
class ReaderConfig(Settings):
    """Reading comprehension: the reader alone, on questions that are each set against one block."""

    seed: int = setting(1, _SEED, SEED)
    steps: int = setting(1000, "of the training", at_least(1))
    batch: int = setting(32, "rows a step", at_least(1))
    at_once: int = setting(16, "rows whose graph is in memory together", at_least(1))
    frozen_layers: int = setting(0, "layers of the reader, from the first, that are not trained", NOT_NEGATIVE)
    casual: float = setting(
        0.0, "share of the questions that are typed casually: without capitals, as keywords, misspelt", SHARE
    )
    teacher_share: float = setting(
        0.7, "share of the teacher's spans and “not here” in the loss, where there is a teacher", WHOLE_SHARE
    )
    reader_lr: float = setting(4e-5, "peak learning rate of the reader's layers", POSITIVE)
    head_lr: float = setting(5e-4, "peak learning rate of the span scores, which start from nothing", POSITIVE)
    holdout: float = setting(0.01, "share of the questions measured on, drawn by a hash of the question", SHARE)
    checkpoint_every: int = setting(100, _CHECKPOINT, at_least(1))
    metrics_every: int = setting(10, _METRICS, _METRICS_LIMIT)
    warmup: float = setting(0.06, _WARMUP, SHARE)
    weight_decay: float = setting(0.01, _DECAY, NOT_NEGATIVE)
    clip: float = setting(1.0, _CLIP, POSITIVE)
    dropout: float = setting(0.1, _DROPOUT, SHARE)


@dataclass(frozen=True)
class FinetuneConfig(Settings):
    """Fine-tuning on questions with answers."""

    seed: int = setting(1, _SEED, SEED)
    epochs: int = setting(2, "passes over the questions", at_least(1))
    batch: int = setting(16, "questions a step, over all processes", at_least(1))
    at_once: int = setting(8, "questions whose graph is in memory together", at_least(1))
    k: int = setting(5, "blocks read for a question (release: 5)", at_least(1))
    beam: int = setting(
        0, "blocks whose softmax the retriever's loss is (release: 5000); 0: all of the corpus", NOT_NEGATIVE
    )
    examined: int = setting(
        200,
        "blocks of the beam at most where answers are regular expressions, which are looked for in each of them",
        between(1, 5000),  # as many as the released beam has
    )
    normalisation: str = setting(
        "joint",
        "how span scores become probabilities, in the reader's loss and in the model made (release: joint)",
        one_of(*NORMALISATIONS),
    )
    pairs: float = setting(0.5, "weight of the loss that teaches “not here”; 0 is the released recipe", NOT_NEGATIVE)
    supply: bool = setting(
        True, "where the best k blocks hold no answer, read the best one that does in the last place"
    )
    query_lr: float = setting(2e-5, "peak learning rate of the query embedder; 0 leaves it as it is", NOT_NEGATIVE)
    reader_lr: float = setting(1e-4, "peak learning rate of the reader's BERT", POSITIVE)
    head_lr: float = setting(5e-4, "peak learning rate of the span scores, which start from nothing", POSITIVE)
    repeat: dict[str, int] = setting(
        {}, "how often the questions of a file count in an epoch, by its name without the ending"
    )
    holdout: float = setting(
        0.03, "share of the questions measured on and never learnt from, drawn by a hash of the question", SHARE
    )
    checkpoint_every: int = setting(250, _CHECKPOINT, at_least(1))
    metrics_every: int = setting(10, _METRICS, _METRICS_LIMIT)
    warmup: float = setting(0.06, _WARMUP, SHARE)
    weight_decay: float = setting(0.01, _DECAY, NOT_NEGATIVE)
    clip: float = setting(1.0, _CLIP, POSITIVE)
    dropout: float = setting(0.1, _DROPOUT, SHARE)
