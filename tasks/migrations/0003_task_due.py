from django.db import migrations, models

from database.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("tasks", "0002_task_running_of_user")]

    operations = [
        AddIndexConcurrently(
            "task",
            models.Index(
                fields=["kind", "due_at"],
                condition=models.Q(state="queued"),
                name="tasks_task_due",
            ),
        ),
    ]
