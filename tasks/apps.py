"""Background work as Django knows it."""

from django.apps import AppConfig
from django.core import checks


class TasksApp(AppConfig):
    name = "tasks"

    def ready(self) -> None:
        # Only now: it leads to models, which exist from here on.
        from memory import belongings
        from tasks import (
            agent_tools,
            belonging,
            judge_tasks,
            judging,
            kinds,
            shadow_tasks,
            shadowing,
            turn_tasks,
        )
        from tasks.checks import check_triggers
        from turns import afterwards, judgements, toolbox

        kinds.register(turn_tasks.KIND)
        kinds.register(judge_tasks.KIND)
        kinds.register(shadow_tasks.KIND)
        afterwards.follow(judging.due)
        afterwards.follow(shadowing.due)
        toolbox.offer(agent_tools.make)
        belongings.register(belonging.TASKS)
        # After the tasks: who erases those waits for a judge that is about to score.
        belongings.register(judgements.SCORES)
        belongings.register(judgements.FEEDBACK)
        checks.register(check_triggers)
