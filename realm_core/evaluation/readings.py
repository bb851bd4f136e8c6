"""What a model's reader gave for many questions in one corpus, cached on disk.

    ID-START.safetensors   of the questions from START on: rows [Q, K], scores [Q, K] and the logits of all blocks

Reading takes minutes to an hour; what follows from it (a rule that is tried, a run that is resumed) takes seconds.

Legend: Q questions of a file, K blocks of each, L body wordpieces of a block, M longest span.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from realm_core.evaluation.predicting import Predictor
from realm_core.files import disk_errors
from realm_core.living.view import CorpusView
from realm_core.questions.question_file import Question
from realm_core.runs.activity import Activity
from realm_core.serving.reading import ReadBlock
from realm_core.tensors import load_tensors, save_tensors
from realm_core.text.wordpieces import Wordpieces

_QUESTIONS_A_FILE = 64


class KeptReadings:
    """Reads questions with `predictor`, or loads what it has read before.

    kept: the folder. reader: identifies model, index, settings and code; readings of another one are not used.
    """

    def __init__(self, predictor: Predictor, corpus: CorpusView, kept: Path, reader: str, activity: Activity) -> None:
        self._predictor, self._corpus, self._kept, self._reader = predictor, corpus, kept, reader
        self._activity, self._wordpieces = activity, Wordpieces.default()
        with disk_errors(kept):
            kept.mkdir(parents=True, exist_ok=True)

    def of(self, questions: Sequence[Question]) -> Iterator[tuple[Question, list[ReadBlock]]]:
        """Each question with its blocks, uncalibrated."""
        texts = "\n".join([self._reader, *(question.question for question in questions)])
        name = hashlib.sha256(texts.encode()).hexdigest()[:16]
        for start in range(0, len(questions), _QUESTIONS_A_FILE):
            part = questions[start : start + _QUESTIONS_A_FILE]
            path = self._kept / f"{name}-{start:05d}.safetensors"
            if path.exists():
                yield from zip(part, self._loaded(load_tensors(path)), strict=True)
                continue
            read = []
            for one in self._predictor.read(part):
                self._activity.check()
                read.append(one)
                yield one
            save_tensors(path, _tensors([blocks for _, blocks in read]))

    def _loaded(self, tensors: dict[str, Tensor]) -> Iterator[list[ReadBlock]]:
        scores = iter(tensors["scores_QK"].flatten().tolist())
        logits = iter(tensors["logits"].split(tensors["sizes_QK"].flatten().tolist()))
        widths = iter(tensors["widths_Q"].tolist())
        for rows_K in tensors["rows_QK"].tolist():
            blocks = [self._corpus.block(row) for row in rows_K]
            bodies = self._wordpieces.encode([block.text for block in blocks])
            width = next(widths)
            yield [
                ReadBlock(block, body, next(scores), next(logits).view(-1, width))
                for block, body in zip(blocks, bodies, strict=True)
            ]


def _tensors(read: Sequence[Sequence[ReadBlock]]) -> dict[str, Tensor]:
    """A question's logits are of one width M, that of its longest span."""
    return {
        "rows_QK": torch.tensor([[block.block.row for block in blocks] for blocks in read], dtype=torch.int32),
        "scores_QK": torch.tensor([[block.score for block in blocks] for blocks in read], dtype=torch.float64),
        "sizes_QK": torch.tensor([[block.logits_LM.numel() for block in blocks] for blocks in read]),
        "widths_Q": torch.tensor([blocks[0].logits_LM.shape[1] for blocks in read]),
        "logits": torch.cat([block.logits_LM.flatten() for blocks in read for block in blocks]),
    }
