"""A schedule's run over a corpus whose index has just been built."""

from __future__ import annotations

from webapp.models import Deployment, IndexGeneration, Job, JobKind, JobState, Schedule
from webapp.models.schedule import ScheduleStage
from webapp.schedules import service as scheduling
from webapp.serving.engine import holder


def advance(index: IndexGeneration) -> Schedule:
    """A run that is wanted, and whose index has just been built, takes its next step."""
    job = Job.objects.create(kind=JobKind.INDEX, state=JobState.SUCCEEDED, parameters={"corpus": index.corpus_id})
    schedule = scheduling.follow(job, index.corpus.name, deploy=True)
    Schedule.objects.filter(pk=schedule.pk).update(stage=ScheduleStage.INDEX, corpus=index.corpus)
    scheduling.advance()
    holder().refresh(wait=True)
    schedule.refresh_from_db()
    return schedule


def active() -> IndexGeneration:
    deployment = Deployment.active()
    assert deployment is not None
    return deployment.index
