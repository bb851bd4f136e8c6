"""An answer whose question was to be read exactly as it was typed says so."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("webapp", "0025_originals"),
    ]

    operations = [
        migrations.AddField(
            model_name="askedanswer",
            name="as_typed",
            field=models.BooleanField(default=False, help_text="Whether its spelling was not to be corrected."),
        ),
    ]
