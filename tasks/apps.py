"""Background work as Django knows it."""

from django.apps import AppConfig


class TasksApp(AppConfig):
    name = "tasks"

    def ready(self) -> None:
        # Only now: it leads to models, which exist from here on.
        from memory import belongings
        from tasks import belonging, kinds, turn_tasks

        kinds.register(turn_tasks.KIND)
        belongings.register(belonging.TASKS)
