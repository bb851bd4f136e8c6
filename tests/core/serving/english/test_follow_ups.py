"""A question that only an earlier one explains is answered from no block."""

from __future__ import annotations

import pytest

from realm_core.serving.engine import Engine
from realm_core.serving.english.follow_ups import is_follow_up
from tests.core.engines import check_sums


@pytest.mark.parametrize(
    ("question", "follows"),
    [
        ("And when did he die?", True),
        ("Who was his wife?", True),
        ("how old was she", True),
        ("What year did it open?", True),
        ("where's it from", True),
        ("Who?", True),
        ("what is", True),
        ("The Who", False),
        ("Who is who?", False),
        ("What does your spleen do?", False),
        ("Who painted Where Do We Come From?", False),
        ("Who sang What's His Name?", False),
        ("When did Napoleon lose his throne?", False),
        ("When did she leave the band that she had founded?", False),
        ("", False),
    ],
)
def test_a_follow_up_names_its_subject_by_a_pronoun_alone_or_not_at_all(question: str, follows: bool) -> None:
    assert is_follow_up(question) is follows


def test_no_block_answers_it(engine: Engine) -> None:
    answer = engine.ask("When did it open?", k=3, normalisation="block+null", as_typed=True)
    assert answer.no_answer_probability is not None and answer.no_answer_probability > 0.999
    assert answer.answers and answer.evidence[0].start is not None  # what came nearest is still shown
    check_sums(answer)
