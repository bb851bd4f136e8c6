"""The PDF that a document was read from is kept. Of those that were uploaded before, there is none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("webapp", "0024_shares_and_runs"),
    ]

    operations = [
        migrations.AddField(
            model_name="document",
            name="original",
            field=models.CharField(
                blank=True,
                default="",
                help_text="Path of the PDF that it was read from, which is kept; empty: none.",
                max_length=100,
            ),
            preserve_default=False,
        ),
    ]
