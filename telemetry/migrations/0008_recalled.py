from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("telemetry", "0007_known_costs")]

    operations = [
        migrations.AddField(
            model_name="turn",
            name="recalled",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
    ]
