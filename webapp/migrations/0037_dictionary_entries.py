"""How many articles of a corpus are entries of the dictionary, by their addresses where its files are there."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import migrations, models

from realm_core.errors import RealmError


def count_entries(apps: Any, _schema_editor: Any) -> None:
    from realm_core.corpus.store import Snapshot  # loads pyarrow, which a server that starts does not need
    from realm_core.corpus.wordnet import ADDRESS

    corpora = apps.get_model("webapp", "CorpusSnapshot")._base_manager
    for corpus in corpora.all():
        try:
            entries = Snapshot.open(Path(settings.REALM_DATA) / corpus.path).count_from(ADDRESS)
        except RealmError:  # its files are elsewhere, or were removed
            continue
        corpora.filter(pk=corpus.pk).update(dictionary_entries=entries)


class Migration(migrations.Migration):
    dependencies = [
        ("webapp", "0036_what_runs_came_to"),
    ]

    operations = [
        migrations.AddField(
            model_name="corpussnapshot",
            name="dictionary_entries",
            field=models.PositiveIntegerField(
                default=0, help_text="How many of its articles are entries of the dictionary, a line each."
            ),
        ),
        migrations.RunPython(count_entries, migrations.RunPython.noop),
    ]
