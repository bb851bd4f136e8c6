"""What a fine-tuning's page says of the questions that were learnt, set by set."""

from __future__ import annotations

from webapp.jobs.result import figures
from webapp.models import Job


def test_each_set_says_what_was_learnt_from_it() -> None:
    sets = {
        "corrected": {"given": 3, "learnt": 2, "held_out": 1, "right_before": 0, "right_after": 2},
        "many": {"given": 1200, "learnt": 1200, "held_out": 0},
    }
    questions = {"given": 1203, "learnt": 1202, "held_out": 1, "sets": sets}
    assert figures(Job(kind="finetune", result={"questions": questions})) == [
        ("Questions learnt", "1,202 of 1,203"),
        ("Learnt from corrected", "2 of 3, 1 held out; right before: 0, now: 2"),
        ("Learnt from many", "1,200 of 1,200"),
    ]
