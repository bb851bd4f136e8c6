"""Each setting of an ablation is a parameter of its job, as of all other kinds; it was one text in TOML."""

import tomllib

from django.db import migrations

# Nobody could set it; a text could name it all the same.
_SAME_IN_ALL = {"pretrain.masking"}


def by_setting(apps, _schema_editor):
    """What the text left out has its default still, and so have the rows where none were named: all of them."""
    for job in apps.get_model("webapp", "Job").objects.filter(kind="ablate").only("parameters").iterator():
        parameters = dict(job.parameters)
        text, rows = parameters.pop("config", None), parameters.pop("rows", None)
        if not isinstance(text, str):
            continue
        parameters |= {name: value for name, value in _settings(text).items() if name not in _SAME_IN_ALL}
        if isinstance(rows, str) and rows.strip():
            parameters["rows"] = list(dict.fromkeys(rows.split()))
        job.parameters = parameters
        job.save(update_fields=["parameters"])


def _settings(text):
    try:
        sections = tomllib.loads(text)
    except ValueError:  # no job was ever started with such a text
        return {}
    return {
        f"{section}.{name}": value
        for section, settings in sections.items()
        if isinstance(settings, dict)
        for name, value in settings.items()
    }


class Migration(migrations.Migration):
    dependencies = [
        ("webapp", "0009_signs_of_life"),
    ]

    operations = [
        migrations.RunPython(by_setting, migrations.RunPython.noop),
    ]
