"""No rule and no schedule reaches beyond the years that a date can have."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("webapp", "0026_as_typed"),
    ]

    operations = [
        migrations.AlterField(
            model_name="retentionrule",
            name="answer_days",
            field=models.PositiveSmallIntegerField(
                default=365,
                help_text="Days that questions asked without an account are kept, with their answers; 0: for ever.",
                validators=[django.core.validators.MaxValueValidator(10000)],
            ),
        ),
        migrations.AlterField(
            model_name="retentionrule",
            name="generations",
            field=models.PositiveSmallIntegerField(
                default=3,
                help_text="Index generations kept of each corpus, the newest.",
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(10000),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="retentionrule",
            name="run_days",
            field=models.PositiveSmallIntegerField(
                default=30,
                help_text="Days that the run folder of a finished job is kept.",
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(10000),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="schedule",
            name="hours",
            field=models.PositiveSmallIntegerField(
                blank=True,
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(8784),
                ],
            ),
        ),
    ]
