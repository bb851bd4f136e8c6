"""Collections, and the one that each document and each block of evidence is in: so far that of the corpus."""

from typing import Any

import django.core.validators
from django.db import migrations, models


def name_collections(apps: Any, _schema_editor: Any) -> None:
    corpora = apps.get_model("webapp", "CorpusSnapshot")._base_manager
    for model, path in (("Document", "index"), ("EvidenceBlock", "answer__deployment__index")):
        records = apps.get_model("webapp", model)._base_manager
        for corpus in corpora.all():
            records.filter(**{f"{path}__corpus": corpus.pk}).update(collection=corpus.name)


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("webapp", "0021_evidence_text_once"),
    ]
    operations = [
        migrations.CreateModel(
            name="Collection",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(help_text="As documents name it.", max_length=100, unique=True)),
                (
                    "title",
                    models.CharField(blank=True, help_text="What people are shown. Empty: its name.", max_length=200),
                ),
                ("description", models.TextField(blank=True, max_length=1000)),
                (
                    "private",
                    models.BooleanField(
                        default=False,
                        help_text="Only admins and the groups below read its documents, and answers from them.",
                    ),
                ),
                (
                    "weight",
                    models.FloatField(
                        default=1.0,
                        help_text="What the prior of its passages is multiplied by before it is normalised; 1 changes "
                        "nothing.",
                        validators=[
                            django.core.validators.MinValueValidator(0.001),
                            django.core.validators.MaxValueValidator(1000.0),
                        ],
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("changed_at", models.DateTimeField(auto_now=True)),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Who reads it, besides admins, where it is private.",
                        related_name="+",
                        to="auth.group",
                    ),
                ),
            ],
            options={"ordering": ["name"]},
        ),
        migrations.AddField(
            model_name="askedanswer",
            name="collections",
            field=models.JSONField(
                blank=True, default=list, help_text="Names of the collections that were to be looked in; none: all."
            ),
        ),
        migrations.AddField(
            model_name="askedanswer",
            name="filters",
            field=models.JSONField(
                blank=True, default=dict, help_text="Which of their documents were to be looked in."
            ),
        ),
        migrations.AddField(
            model_name="document",
            name="collection",
            field=models.CharField(default="", help_text="Its name.", max_length=100),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="evidenceblock",
            name="collection",
            field=models.CharField(default="", help_text="That its document was in.", max_length=100),
            preserve_default=False,
        ),
        migrations.RunPython(name_collections, migrations.RunPython.noop),
    ]
