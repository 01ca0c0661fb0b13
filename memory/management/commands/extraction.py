"""`coulisse extraction`: list extraction jobs, and retry failed ones."""

import uuid
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from access.audit import audit_events, audit_log
from access.audit.audit_events import AuditEvent
from access.users import identity
from config.management.database_command import DatabaseCommand
from core.ids import UserId, parse_uuid
from memory.extraction import extraction_tasks
from tasks.models import Task, TaskQuerySet

DEFAULT_LIMIT = 50
"""The number of newest jobs that are listed."""


class Command(DatabaseCommand):
    """Count and list extractions, or requeue failed ones."""

    help = "List extraction jobs, or retry failed ones."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--failed", action="store_true", help="Only failed jobs.")
        parser.add_argument("--user", help="Only this user's jobs.")
        parser.add_argument(
            "--retry", metavar="ID|all", help="Retry this failed job, or all of them."
        )

    def handle(self, **options: Any) -> None:
        user = options["user"]
        user_id = (
            None
            if user is None
            else identity.derive_user_id(identity.check_identifier(user))
        )
        if options["retry"] is not None:
            self._retry(options["retry"], user_id)
            return
        tasks = extraction_tasks.extractions()
        if user_id is not None:
            tasks = tasks.of_user(user_id)
        self._count(tasks)
        if options["failed"]:
            tasks = tasks.errored()
        for task in tasks.newest_first()[:DEFAULT_LIMIT]:
            self._print(task)

    def _retry(self, which: str, user_id: UserId | None) -> None:
        failed = extraction_tasks.extractions().errored()
        if which != "all":
            failed = failed.filter(pk=parse_id(which))
        if user_id is not None:
            failed = failed.of_user(user_id)
        with transaction.atomic():
            count = failed.requeue()
            if count:
                details: dict[str, Any] = {"requeued": count}
                if user_id is not None:
                    details["user"] = str(user_id)
                by = audit_events.terminal_actor()
                audit_log.write(AuditEvent("extraction.retry", by, which, details))
        if which != "all" and not count:
            raise CommandError(f"there is no failed extraction {which}")
        self.stdout.write(f"{count} requeued; a worker runs them within seconds")

    def _count(self, tasks: TaskQuerySet) -> None:
        counts = extraction_tasks.count_by_state(tasks)
        summary = ", ".join(f"{count} {name}" for name, count in counts.items())
        self.stdout.write(f"extraction jobs: {summary}")

    def _print(self, task: Task) -> None:
        result = extraction_tasks.read_result(task)
        self.stdout.write(
            f"{task.pk}  {task.created_at:%Y-%m-%d %H:%M}  {task.state:<7}  "
            f"{result.saved}/{result.found} facts  {task.agent}  {task.user_id}"
        )
        texts = {"error": task.error or result.skipped, "reply": result.reply}
        for name, text in texts.items():
            if line := " ".join(text.split()):
                self.stdout.write(f"    {name}: {line[:300]}")


def parse_id(text: str) -> uuid.UUID:
    """Return the id of a task; raises CommandError if it is malformed."""
    task_id = parse_uuid(text)
    if task_id is None:
        raise CommandError(f"--retry takes an id or 'all', not '{text}'")
    return task_id
