"""Generated from _async_operators.py by `python -m client.generate`: do not edit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Unpack

from realm_client import _operating as operating
from realm_client._calls import (
    JSON_LINES,
    Call,
    File,
    Filters,
    RetentionChanges,
    ScheduleChanges,
    ScheduleSettings,
    segment,
)
from realm_client._sending import Sending


class Operators(Sending):
    """The part of an `AsyncClient` for admins."""

    def job_kinds(self) -> tuple[operating.Kind, ...]:
        """The kinds of job, with what each works on and may be told."""
        return self._do(Call("GET", "/job-kinds", tuple[operating.Kind, ...]))

    def jobs(self, **filters: Filters | None) -> Iterator[operating.Job]:
        """Jobs, the latest first. Filters: state, kind, queue, part, since, before, order."""
        return self._list("/jobs", operating.Job, filters)

    def job(self, job_id: str) -> operating.Job:
        """A job."""
        return self._do(Call("GET", f"/jobs/{segment(job_id)}", operating.Job))

    def start_job(self, kind: str, parameters: Mapping[str, Any], *, settings_of: str | None = None) -> operating.Job:
        """Start a job. settings_of: an earlier one, whose settings hold where `parameters` says nothing."""
        body = {"kind": kind, "parameters": dict(parameters), "settings_of": settings_of}
        return self._do(Call("POST", "/jobs", operating.Job, body=body, repeatable=False))

    def stop_job(self, job_id: str) -> operating.Job:
        """Stop a job, at its next safe point."""
        return self._do(Call("POST", f"/jobs/{segment(job_id)}/stop", operating.Job, repeatable=False))

    def resume_job(self, job_id: str) -> operating.Job:
        """Resume a job that failed, was stopped or interrupted."""
        return self._do(Call("POST", f"/jobs/{segment(job_id)}/resume", operating.Job, repeatable=False))

    def job_log(self, job_id: str, *, offset: int = 0) -> operating.Log:
        """A piece of a job's log from a byte on; the following one begins at its `next_offset`."""
        return self._do(Call("GET", f"/jobs/{segment(job_id)}/log", operating.Log, params={"offset": offset}))

    def job_metrics(self, job_id: str, *, after: int = 0) -> Iterator[operating.Metric]:
        """What a job has measured, the earliest first. after: the `id` of one, to go on behind it."""
        path, more = f"/jobs/{segment(job_id)}/metrics", True
        while more:
            page = self._do(Call("GET", path, operating.Metrics, params={"after": after}))
            yield from page.rows
            after, more = page.cursor, page.more

    def wait_for(self, job_id: str, *, every_s: float = 2.0) -> operating.Job:
        """The job when it is over, however long that takes."""
        while not (job := self.job(job_id)).is_over:
            time.sleep(every_s)
        return job

    def corpora(self, **filters: Filters | None) -> Iterator[operating.Corpus]:
        """Corpus snapshots. Filters: name, language, since, before, order."""
        return self._list("/corpora", operating.Corpus, filters)

    def corpus(self, corpus_id: int) -> operating.Corpus:
        """A corpus snapshot."""
        return self._do(Call("GET", f"/corpora/{corpus_id}", operating.Corpus))

    def remove_corpus(self, corpus_id: int) -> None:
        """Remove a corpus snapshot that nothing uses."""
        self._do(Call("DELETE", f"/corpora/{corpus_id}", None))

    def models(self, **filters: Filters | None) -> Iterator[operating.Model]:
        """Model versions. Filters: parent, corpus, since, before, order."""
        return self._list("/models", operating.Model, filters)

    def model(self, model_id: int) -> operating.Model:
        """A model version with its card."""
        return self._do(Call("GET", f"/models/{model_id}", operating.Model))

    def add_model(self, shipped: str) -> operating.Model:
        """Add a model that comes with the source, such as realm-mini; what was there already is returned as it is."""
        return self._do(Call("POST", "/models", operating.Model, body={"shipped": shipped}))

    def remove_model(self, model_id: int) -> None:
        """Remove a model version that nothing uses."""
        self._do(Call("DELETE", f"/models/{model_id}", None))

    def indexes(self, **filters: Filters | None) -> Iterator[operating.Index]:
        """Index generations. Filters: model, corpus, since, before, order."""
        return self._list("/indexes", operating.Index, filters)

    def index(self, index_id: int) -> operating.Index:
        """An index generation, also one whose files were removed."""
        return self._do(Call("GET", f"/indexes/{index_id}", operating.Index))

    def remove_index(self, index_id: int) -> None:
        """Remove an index generation that nothing uses."""
        self._do(Call("DELETE", f"/indexes/{index_id}", None))

    def question_sets(self, **filters: Filters | None) -> Iterator[operating.QuestionSet]:
        """Files of questions. Filters: purpose, since, before, order."""
        return self._list("/question-sets", operating.QuestionSet, filters)

    def question_set(self, question_set_id: int) -> operating.QuestionSet:
        """A file of questions."""
        return self._do(Call("GET", f"/question-sets/{question_set_id}", operating.QuestionSet))

    def add_question_set(
        self, file: File, purpose: str, *, name: str = "", origin: str = "", leave_out_measured: bool = False
    ) -> operating.QuestionSet:
        """Add the questions of a file: JSON lines, CSV or TSV. purpose: learn or measure. name: the file's if empty.

        leave_out_measured: of a set to learn from, leave out what a set to measure by has; else the file is refused.
        """
        body = {"purpose": purpose, "name": name, "origin": origin, "leave_out_measured": leave_out_measured}
        return self._do(Call("POST", "/question-sets", operating.QuestionSet, body=body, files=(file,)))

    def remove_question_set(self, question_set_id: int) -> None:
        """Remove a question set that nothing uses."""
        self._do(Call("DELETE", f"/question-sets/{question_set_id}", None))

    def span_sets(self, **filters: Filters | None) -> Iterator[operating.SpanSet]:
        """Salient spans of corpora. Filters: corpus, since, before, order."""
        return self._list("/span-sets", operating.SpanSet, filters)

    def span_set(self, span_set_id: int) -> operating.SpanSet:
        """The salient spans of a corpus."""
        return self._do(Call("GET", f"/span-sets/{span_set_id}", operating.SpanSet))

    def evaluations(self, **filters: Filters | None) -> Iterator[operating.Evaluation]:
        """Measurements. Filters: model, corpus, index, questions, since, before, order."""
        return self._list("/evaluations", operating.Evaluation, filters)

    def evaluation(self, evaluation_id: int) -> operating.Evaluation:
        """A measurement with all its figures."""
        return self._do(Call("GET", f"/evaluations/{evaluation_id}", operating.Evaluation))

    def predictions(self, evaluation_id: int, **filters: Filters | None) -> Iterator[operating.Prediction]:
        """The questions of a measurement, and what was said. Filters: outcome, cause."""
        return self._list(f"/evaluations/{evaluation_id}/predictions", operating.Prediction, filters)

    def all_feedback(self, **filters: Filters | None) -> Iterator[operating.Said]:
        """All feedback on answers. Filters: review, teaches, right, deployment, since, before, order."""
        return self._list("/feedback", operating.Said, filters)

    def feedback_export(self) -> bytes:
        """Accepted feedback as a file of questions to train on: JSON lines, perhaps none."""
        return self._do(Call("GET", "/feedback/export", bytes, headers={"Accept": JSON_LINES}))

    def deployments(self, **filters: Filters | None) -> Iterator[operating.Deployment]:
        """The active deployment and earlier ones. Filters: model, index, active, since, before, order."""
        return self._list("/deployments", operating.Deployment, filters)

    def deployment(self, deployment_id: int) -> operating.Deployment:
        """A deployment."""
        return self._do(Call("GET", f"/deployments/{deployment_id}", operating.Deployment))

    def deploy(
        self, index: int, *, model: int | None = None, note: str = "", confirm: str = ""
    ) -> operating.Deployment:
        """Let an index and a model answer. Conflict tells `doubts`; its `confirm`, sent back, confirms them."""
        body = {"index": index, "model": model, "note": note, "confirm": confirm}
        return self._do(Call("POST", "/deployments", operating.Deployment, body=body, repeatable=False))

    def activate(self, deployment: int, *, confirm: str = "") -> operating.Deployment:
        """Go back to an earlier deployment; doubts as of `deploy`."""
        path = f"/deployments/{deployment}/activate"
        return self._do(Call("POST", path, operating.Deployment, body={"confirm": confirm}, repeatable=False))

    def schedules(self, **filters: Filters | None) -> Iterator[operating.Schedule]:
        """Automatic rebuilds. Filters: corpus_name, enabled, since, before, order."""
        return self._list("/schedules", operating.Schedule, filters)

    def schedule(self, schedule_id: int) -> operating.Schedule:
        """An automatic rebuild."""
        return self._do(Call("GET", f"/schedules/{schedule_id}", operating.Schedule))

    def create_schedule(
        self, corpus_name: str, trigger: str, **settings: Unpack[ScheduleSettings]
    ) -> operating.Schedule:
        """Create a schedule. trigger: every, at or new-model. If the response is lost, see `schedules`."""
        body = {"corpus_name": corpus_name, "trigger": trigger, **settings}
        return self._do(Call("POST", "/schedules", operating.Schedule, body=body, repeatable=False))

    def change_schedule(self, schedule_id: int, **changes: Unpack[ScheduleChanges]) -> operating.Schedule:
        """Change settings of a schedule; what is not given stays."""
        return self._do(Call("PATCH", f"/schedules/{schedule_id}", operating.Schedule, body=dict(changes)))

    def remove_schedule(self, schedule_id: int) -> None:
        """Remove a schedule; the jobs that it started stay."""
        self._do(Call("DELETE", f"/schedules/{schedule_id}", None))

    def source_files(self) -> tuple[operating.SourceFile, ...]:
        """The files that an ingest can read, by name."""
        return self._do(Call("GET", "/source-files", tuple[operating.SourceFile, ...]))

    def add_source_file(self, file: File, *, replace: bool = False) -> operating.SourceFile:
        """Add a file for an ingest to read. replace: in the place of one of its name, if there is one."""
        body = {"replace": replace}
        call = Call("POST", "/source-files", operating.SourceFile, body=body, files=(file,), repeatable=replace)
        return self._do(call)

    def remove_source_file(self, name: str) -> None:
        """Remove a file that no ingest reads."""
        self._do(Call("DELETE", f"/source-files/{segment(name)}", None))

    def retention(self) -> operating.RetentionRule:
        """What is kept of old work, and how long questions that were asked without an account are."""
        return self._do(Call("GET", "/retention", operating.RetentionRule))

    def change_retention(self, **changes: Unpack[RetentionChanges]) -> operating.RetentionRule:
        """Change the rule of retention; what is not given stays."""
        return self._do(Call("PATCH", "/retention", operating.RetentionRule, body=dict(changes)))

    def run_schedule(self, schedule_id: int) -> operating.Schedule:
        """Run a schedule now. Its `last_job` is the job; None: the first of `runs` says why there is none."""
        path = f"/schedules/{schedule_id}/run"
        return self._do(Call("POST", path, operating.Schedule, repeatable=False))

    def audit_trail(self, **filters: Filters | None) -> Iterator[operating.AuditEntry]:
        """Who did what, the latest first. Filters: name, action, since, before."""
        return self._list("/audit-trail", operating.AuditEntry, filters)
