"""Background work as Django knows it."""

from django.apps import AppConfig
from django.core import checks


class TasksApp(AppConfig):
    name = "tasks"

    def ready(self) -> None:
        # Only now: it leads to models, which exist from here on.
        from memory.user_data import registry
        from tasks import user_data
        from tasks.agent_runs import agent_handler
        from tasks.checks import check_triggers
        from tasks.judge_runs import judge_handler, judge_queue
        from tasks.queue import task_kinds
        from tasks.shadow_runs import shadow_handler, shadow_queue
        from tasks.submission import agent_tools
        from turns.evaluation import judge_user_data
        from turns.lifecycle import post_turn_hooks
        from turns.tools import toolbox

        task_kinds.register(agent_handler.KIND)
        task_kinds.register(judge_handler.KIND)
        task_kinds.register(shadow_handler.KIND)
        post_turn_hooks.follow(judge_queue.due)
        post_turn_hooks.follow(shadow_queue.due)
        toolbox.offer(agent_tools.make)
        registry.register(user_data.TASKS)
        # After the tasks: who erases those waits for a judge that is about to score.
        registry.register(judge_user_data.SCORES)
        registry.register(judge_user_data.FEEDBACK)
        checks.register(check_triggers)
