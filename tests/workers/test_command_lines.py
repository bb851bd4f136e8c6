"""What jobs tell their processes, and what they keep of what these say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.pages import stored
from webapp.kinds import KINDS
from webapp.models import Job, JobKind
from workers.executions import EXECUTIONS

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, []),
        ({"min_probability": 0}, ["--min-probability=0.0"]),
        ({"min_probability": 0.2}, ["--min-probability=0.2"]),
    ],
)
def test_an_export_leaves_the_limit_to_the_model_unless_told(given: dict[str, Any], told: list[str]) -> None:
    kind = KINDS["export"]
    parameters = kind.written(kind.read({"model": stored.deployment().model_id, **given}))
    command = EXECUTIONS["export"].command(Job.objects.create(kind="export", parameters=parameters))
    assert [word for word in command if word.startswith("--min-probability")] == told


def test_an_ablation_keeps_its_table_without_the_paths_of_its_commands() -> None:
    stage = {"name": "ict", "seconds": 3.0}
    asked = {"plain-dev": 183, "a": 5}
    result = {"questions": asked, "rows": [{"name": "realm"}], "stages": [{**stage, "command": ["ict", "--model=/x"]}]}
    kept = EXECUTIONS[JobKind.ABLATE].record(Job(kind=JobKind.ABLATE), result)
    assert kept == {"questions": list(asked.items()), "rows": [{"name": "realm"}], "stages": [stage]}
