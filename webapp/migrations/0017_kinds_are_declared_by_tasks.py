"""A kind of job is a task of realm_core: a new one needs no migration."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("webapp", "0016_what_feedback_is_used_for")]

    operations = [
        migrations.AlterField(model_name="job", name="kind", field=models.CharField(max_length=30)),
    ]
