"""What share of its source a corpus holds, by its manifest where that is there; and what a schedule's run is about."""

from pathlib import Path
from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from realm_core.errors import RealmError
from realm_core.files import read_json


def read_shares(apps: Any, _schema_editor: Any) -> None:
    corpora = apps.get_model("webapp", "CorpusSnapshot")._base_manager
    for corpus in corpora.all():
        try:
            share = float(read_json(Path(settings.REALM_DATA) / corpus.path / "manifest.json").get("share", 1.0))
        except (RealmError, AttributeError, TypeError, ValueError):  # its files are elsewhere, or were removed
            continue
        corpora.filter(pk=corpus.pk).update(share=share)


def continue_runs(apps: Any, _schema_editor: Any) -> None:
    """Runs that are under way go on: each is about the corpus of its job."""
    active = apps.get_model("webapp", "Deployment").objects.filter(is_active=True).first()
    corpora = apps.get_model("webapp", "CorpusSnapshot")._base_manager
    indexes = apps.get_model("webapp", "IndexGeneration")._base_manager
    for schedule in apps.get_model("webapp", "Schedule").objects.exclude(stage="").exclude(last_job=None):
        job, parameters = schedule.last_job, schedule.last_job.parameters
        schedule.answering = active
        if job.kind == "ingest":
            schedule.ingested_by = job
        elif job.kind == "index":
            schedule.corpus = corpora.filter(pk=parameters.get("corpus")).first()
        elif schedule.stage == "check":
            schedule.corpus = corpora.filter(indexes__pk=parameters.get("index")).first()
        else:  # what answers is asked, and the newest waits for that
            newest = indexes.filter(corpus__name=schedule.corpus_name).order_by("-pk").first()
            schedule.corpus = newest and newest.corpus
        if schedule.corpus is not None and schedule.corpus.job is not None and schedule.corpus.job.kind == "ingest":
            schedule.ingested_by = schedule.corpus.job
        schedule.save()


class Migration(migrations.Migration):
    dependencies = [
        ("webapp", "0023_folded_indexes"),
    ]

    operations = [
        migrations.AddField(
            model_name="corpussnapshot",
            name="share",
            field=models.FloatField(
                default=1.0,
                help_text="What part of its source it holds, by its manifest when it was recorded; 1: all of it.",
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="answering",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                help_text="The run's own latest deployment; before that, the one that was active when it began.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="webapp.deployment",
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="corpus",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="webapp.corpussnapshot",
            ),
        ),
        migrations.AddField(
            model_name="schedule",
            name="ingested_by",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="webapp.job",
            ),
        ),
        migrations.RunPython(read_shares, migrations.RunPython.noop),
        migrations.RunPython(continue_runs, migrations.RunPython.noop),
    ]
