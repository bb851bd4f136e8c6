from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("webapp", "0032_document_warnings"),
    ]

    operations = [
        migrations.AddField(
            model_name="schedule",
            name="last_failed",
            field=models.BooleanField(
                default=False, help_text="Whether the last run failed, or its index was to be deployed and was not."
            ),
        ),
        migrations.AlterField(
            model_name="schedule",
            name="last_outcome",
            field=models.TextField(blank=True, help_text="What came of it, in a sentence."),
        ),
    ]
