"""Background work as Django knows it."""

from django.apps import AppConfig


class TasksApp(AppConfig):
    name = "tasks"

    def ready(self) -> None:
        # Only now: it leads to models, which exist from here on.
        from judges import user_data
        from memory.user_data import registry
        from tasks import user_data

        registry.register(user_data.TASKS)
        # After the tasks: who erases those waits for a judge that is about to score.
        registry.register(user_data.SCORES)
        registry.register(user_data.FEEDBACK)
