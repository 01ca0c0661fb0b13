from django.db import migrations, models

from database.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("tasks", "0001_initial")]

    operations = [
        AddIndexConcurrently(
            "task",
            models.Index(
                fields=["user_id", "kind", "due_at"],
                condition=models.Q(state="running"),
                name="tasks_task_running_of_user",
            ),
        ),
    ]
