"""`manage.py extraction`: list extraction jobs, and retry failed ones."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from access.audit import audit_events, audit_log
from access.audit.audit_events import AuditEvent
from access.users import identity
from config.management.database_command import DatabaseCommand
from core.ids import UserId
from memory.extraction import job_queue
from memory.models import ExtractionJob

DEFAULT_LIMIT = 50
"""The number of newest jobs that are listed."""


class Command(DatabaseCommand):
    """Count and list jobs, or requeue failed ones."""

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
        self._count(user_id)
        rows = ExtractionJob.objects.order_by("-pk")
        if options["failed"]:
            rows = rows.filter(state=ExtractionJob.State.FAILED)
        if user_id is not None:
            rows = rows.filter(user_id=user_id)
        for job in rows[:DEFAULT_LIMIT]:
            self._print(job)

    def _retry(self, which: str, user_id: UserId | None) -> None:
        ids = None if which == "all" else [parse_job_id(which)]
        with transaction.atomic():
            count = job_queue.requeue(ids, user_id=user_id)
            if count:
                details: dict[str, Any] = {"requeued": count}
                if user_id is not None:
                    details["user"] = str(user_id)
                by = audit_events.terminal_actor()
                audit_log.write(AuditEvent("extraction.retry", by, which, details))
        if ids and not count:
            raise CommandError(f"there is no failed job {which}")
        self.stdout.write(f"{count} requeued; the next sweep notifies a worker")

    def _count(self, user_id: UserId | None) -> None:
        counts = job_queue.count_by_state(datetime.now(UTC), user_id=user_id)
        summary = ", ".join(f"{count} {name}" for name, count in counts.items())
        self.stdout.write(f"extraction jobs: {summary}")

    def _print(self, job: ExtractionJob) -> None:
        facts = f"{job.facts_saved}/{job.facts_found} facts"
        self.stdout.write(
            f"{job.pk}  {job.created_at:%Y-%m-%d %H:%M}  {job.state:<7}  "
            f"{facts}  {job.agent}  {job.user_id}"
        )
        for name in ("error", "reply"):
            text = " ".join(getattr(job, name).split())
            if text:
                self.stdout.write(f"    {name}: {text[:300]}")


def parse_job_id(text: str) -> int:
    """Return the id of a job; raises CommandError if it is malformed."""
    if not text.isdecimal():
        raise CommandError(f"--retry takes the id of a job or 'all', got '{text}'")
    return int(text)
