"""`manage.py lessons`: list extraction jobs, and retry failed ones."""

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

    help = "List the turns that are learnt from, or put failed ones back."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--failed", action="store_true", help="Only failed ones.")
        parser.add_argument("--user", help="Only this user's.")
        parser.add_argument(
            "--replay", metavar="ID|all", help="Try a failed one again, or all."
        )

    def handle(self, **options: Any) -> None:
        user = options["user"]
        user_id = (
            None
            if user is None
            else identity.derive_user_id(identity.check_identifier(user))
        )
        if options["replay"] is not None:
            self._replay(options["replay"], user_id)
            return
        self._count(user_id)
        rows = ExtractionJob.objects.order_by("-pk")
        if options["failed"]:
            rows = rows.filter(state=ExtractionJob.State.FAILED)
        if user_id is not None:
            rows = rows.filter(user_id=user_id)
        for lesson in rows[:DEFAULT_LIMIT]:
            self._print(lesson)

    def _replay(self, which: str, user_id: UserId | None) -> None:
        ids = None if which == "all" else [parse_job_id(which)]
        whose = {} if user_id is None else {"user": str(user_id)}
        with transaction.atomic():
            count = job_queue.requeue(ids, user_id=user_id)
            if count:
                details = {**whose, "put_back": count}
                by = audit_events.terminal_actor()
                audit_log.write(AuditEvent("lesson.replay", by, which, details))
        if ids and not count:
            raise CommandError(f"there is no failed lesson {which}")
        self.stdout.write(f"{count} put back; the next sweep wakes a worker")

    def _count(self, user_id: UserId | None) -> None:
        counts = job_queue.count_by_state(datetime.now(UTC), user_id=user_id)
        told = ", ".join(f"{count} {name}" for name, count in counts.items())
        self.stdout.write(f"lessons: {told}")

    def _print(self, lesson: ExtractionJob) -> None:
        facts = f"{lesson.facts_saved}/{lesson.facts_found} facts"
        self.stdout.write(
            f"{lesson.pk}  {lesson.created_at:%Y-%m-%d %H:%M}  {lesson.state:<7}  "
            f"{facts}  {lesson.agent}  {lesson.user_id}"
        )
        for name in ("error", "reply"):
            said = " ".join(getattr(lesson, name).split())
            if said:
                self.stdout.write(f"    {name}: {said[:300]}")


def parse_job_id(text: str) -> int:
    """Return the id of a job; raises CommandError if it is malformed."""
    if not text.isdecimal():
        raise CommandError(f"--replay takes the id of a lesson or 'all', got '{text}'")
    return int(text)
