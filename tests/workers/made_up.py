"""A made-up kind of job in one file, as `docs/architecture.md` shows it: questions that occur twice are removed."""

from __future__ import annotations

from pathlib import Path

from realm_core.runs.activity import Activity
from realm_core.settings import setting
from realm_core.task import QuestionsToLearn, Task, artefact, runtime


class Deduplicate(Task):
    """Question files → one question file."""

    activity = kind = "deduplicate"
    summary = about = "leave out questions that occur twice"
    title = "Deduplicate questions"
    group = "A model"
    queue = "default"

    questions: tuple[QuestionsToLearn, ...] = artefact("the questions to go through")
    most: int = setting(1000, "that are kept at most", unit="questions", ge=1)
    output: Path = runtime(help="file to write")


def main(task: Deduplicate, activity: Activity) -> None:
    """Copy every line once."""
    lines = [line for path in task.questions for line in path.read_text(encoding="utf-8").splitlines()]
    kept = list(dict.fromkeys(lines))[: task.most]
    activity.progress(len(kept), len(lines), "questions")
    task.output.write_text("\n".join(kept) + "\n", encoding="utf-8")
    activity.result({"path": str(task.output), "questions": len(kept)})
