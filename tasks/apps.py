"""Background work as Django knows it."""

from django.apps import AppConfig


class TasksApp(AppConfig):
    name = "tasks"

    def ready(self) -> None:
        # Only now: it leads to models, which exist from here on.
        from memory.user_data import registry
        from tasks import user_data
        from turns.evaluation import judge_user_data

        registry.register(user_data.TASKS)
        # After the tasks: who erases those waits for a judge that is about to score.
        registry.register(judge_user_data.SCORES)
        registry.register(judge_user_data.FEEDBACK)
