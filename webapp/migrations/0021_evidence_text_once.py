"""The text of evidence is stored once: in the answer's payload, which had it already."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models


def copy_back(apps: Any, _schema_editor: Any) -> None:
    """Give the rows of the blocks their copies again, as the version before this one reads them."""
    rows = apps.get_model("webapp", "EvidenceBlock").objects
    for pk, payload in apps.get_model("webapp", "AskedAnswer").objects.values_list("pk", "payload").iterator():
        for block in payload["evidence"]:
            copied = {name: block[name] for name in ("title", "text", "url")}
            rows.filter(answer=pk, rank=block["rank"]).update(**copied)


class Migration(migrations.Migration):
    dependencies = [("webapp", "0020_purges")]

    operations = [
        migrations.RunPython(migrations.RunPython.noop, copy_back),
        # So that undoing the removal has something to begin with; the database does not notice.
        migrations.AlterField("evidenceblock", "title", models.TextField(blank=True)),
        migrations.AlterField("evidenceblock", "text", models.TextField(blank=True)),
        migrations.RemoveField("evidenceblock", "title"),
        migrations.RemoveField("evidenceblock", "text"),
        migrations.RemoveField("evidenceblock", "url"),
    ]
