"""The tasks of question sets."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from realm_core.task import Task, runtime


class Questions(Task):
    """Published question set → question file."""

    activity = "questions"
    summary = "turn a published question set into a question file"
    code = "realm_core.questions.formats"

    files: tuple[Path, ...] = runtime(help="files as they were published, in the order wanted", positional=True)
    format: Literal["own", "nq", "webq", "trec", "trivia", "squad", "dpr", "tsv"] = runtime(
        help="of which question set; own: question files, to leave some out"
    )
    output: Path = runtime(help="question file to write")
    without: tuple[Path, ...] = runtime(
        (), help="leave out questions that stand in these question files, which you measure by"
    )
