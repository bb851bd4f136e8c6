"""One file declares a kind of job; command line, form, REST schema, stored parameters and worker follow."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import pytest

from realm_core.__main__ import run
from realm_core.command_line import add_options, task_of
from realm_core.files import read_json
from realm_core.runs.activity import Activity
from tests.web.operating import question_set
from tests.workers import made_up
from tests.workers.made_up import Deduplicate
from webapp.jobs import service as jobs
from webapp.jobs.form import JobForm
from webapp.jobs.schema import parameters_schema
from webapp.kinds import KINDS, Kind, ParameterError
from webapp.models import Job, Purpose
from webapp.storage.places import resolve
from workers.executions import execution_of

pytestmark = pytest.mark.django_db


def test_a_kind_is_one_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kind = Kind(Deduplicate)
    monkeypatch.setitem(KINDS, Deduplicate.kind, kind)
    learn = question_set("twice", Purpose.LEARN)
    resolve(learn.path).parent.mkdir(parents=True, exist_ok=True)
    resolve(learn.path).write_text("a\nb\na\n")

    form = JobForm(kind, None, {})
    assert list(form.fields) == ["questions", "most"] and form["most"].initial == 1000
    schema = parameters_schema(kind)
    assert schema["properties"]["most"]["minimum"] == 1 and schema["required"] == ["questions"]
    with pytest.raises(ParameterError) as refused:
        jobs.start("deduplicate", {"most": 0}, by=None)
    assert refused.value.errors == {"questions": "is needed.", "most": "must be at least 1, not 0."}

    job = jobs.start("deduplicate", {"questions": [learn.pk], "most": 5}, by=None)
    assert Job.objects.get(pk=job.pk).parameters == {"questions": [learn.pk], "most": 5}
    worker = execution_of(Deduplicate)
    package, activity, *words = worker.command(job)
    parser = argparse.ArgumentParser()
    add_options(parser, Deduplicate)
    task = task_of(Deduplicate, parser.parse_args(words))
    assert (package, activity) == ("realm_core", "deduplicate")
    assert isinstance(task, Deduplicate) and (task.most, task.questions) == (5, (resolve(learn.path),))
    job.run_dir.mkdir(parents=True)
    run(task, Activity(job.run_dir, quiet=True))
    assert json.loads((job.run_dir / "task.json").read_text())["most"] == 5
    assert task.output.read_text() == "a\nb\n"
    assert worker.record(job, read_json(job.run_dir / "result.json")) == {"path": str(task.output), "questions": 2}


def test_the_architecture_shows_the_file() -> None:
    page = Path(__file__).parents[2] / "docs" / "architecture.md"
    [shown] = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert Path(made_up.__file__).read_text(encoding="utf-8").endswith(f"\n\n{shown}")
