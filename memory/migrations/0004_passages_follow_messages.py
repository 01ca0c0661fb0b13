import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Let go of a constraint that made erasing a user read every passage there is."""

    dependencies = [("memory", "0003_codes_of_vectors")]

    operations = [
        migrations.AlterField(
            model_name="passage",
            name="thread",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                to="memory.thread",
            ),
        ),
    ]
