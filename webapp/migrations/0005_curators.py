"""The group of curators, whose members review feedback and look after question sets."""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def make_curators(apps: Apps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    """A group of that name that exists already is taken as it is."""
    apps.get_model("auth", "Group").objects.get_or_create(name="curators")


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("webapp", "0004_accounts_and_service"),
    ]

    operations = [migrations.RunPython(make_curators, migrations.RunPython.noop)]
