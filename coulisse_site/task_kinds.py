"""The kinds of background task, in display order.

They name their handlers, which only workers import: beat and web processes add tasks.
"""

from tasks.queue.task_kinds import EXTRACTION, Queue, TaskKind

KINDS = [
    TaskKind(
        EXTRACTION,
        Queue.MEMORY,
        "memory.extraction.extraction_handler.run",
        is_ordered=True,
        min_backoff_seconds=30.0,
    ),
    TaskKind(
        "session",
        Queue.MEMORY,
        "memory.sessions.session_handler.run",
        is_background=True,
        min_backoff_seconds=30.0,
    ),
    TaskKind(
        "agent", Queue.AGENTS, "turns.agent_tasks.agent_handler.run", is_listed=True
    ),
    TaskKind(
        "judge", Queue.JUDGES, "judges.runs.judge_handler.run", is_background=True
    ),
    TaskKind(
        "shadow",
        Queue.SHADOW,
        "turns.shadow_runs.shadow_handler.run",
        is_background=True,
    ),
    TaskKind("safety", Queue.AGENTS, "safety.webhooks.run"),
    TaskKind(
        "smoke", Queue.SHADOW, "smoke.execution.run_handler.run", is_background=True
    ),
]
