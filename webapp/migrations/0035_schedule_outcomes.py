import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("webapp", "0034_answers_of_purges"),
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
        migrations.AlterField(
            model_name="schedule",
            name="questions",
            field=models.ForeignKey(
                blank=True,
                help_text="Asked of the new index, and of the active deployment.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="webapp.questionset",
            ),
        ),
    ]
