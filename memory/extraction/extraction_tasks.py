"""Extraction tasks: one per stored turn, run in the order of their user's turns."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import Count, Q

from core.ids import TurnId, UserId
from core.runtime import shared_clock
from core.text import redaction
from memory.models import Owner
from tasks.models import EXTRACTION, Task, TaskQuerySet
from tasks.models.queryset import OPEN
from tasks.queue.task_spec import TaskSpec
from telemetry.storage.stored_text import make_storable

MAX_FAILURES = 5
"""Attempts of a task before it is errored."""
MAX_REPLY_LENGTH = 20_000
MAX_SAVE_TIME = timedelta(minutes=1)
"""From the end of a turn until its task is stored."""


@dataclass(frozen=True, slots=True)
class ExtractionRequest:
    agent: str
    time_zone: str = ""
    """The user's IANA time zone; "" is UTC."""
    is_search_only: bool = False
    """The turn is made searchable, and nothing is extracted."""
    opens_session: bool = False
    """Whether the turn is part of a session (`memory.sessions`)."""


class TurnRange(NamedTuple):
    """A stored turn: its messages are `first <= position < end`."""

    user_id: UserId
    thread_id: int
    turn_id: TurnId
    first_position: int
    end_position: int


def enqueue(turn: TurnRange, request: ExtractionRequest, now: datetime) -> None:
    """Add the extraction task of a turn, in the caller's transaction."""
    spec = TaskSpec(
        EXTRACTION,
        turn.user_id,
        request.agent,
        payload={
            "thread": turn.thread_id,
            "first": turn.first_position,
            "end": turn.end_position,
            "time_zone": request.time_zone,
            **({"search_only": True} if request.is_search_only else {}),
        },
        turn_id=turn.turn_id,
        max_failures=MAX_FAILURES,
    )
    Task.objects.append(spec, now=now)


def move(user_id: UserId, turn_id: UUID, thread_id: int, by: int) -> None:
    """Tell the open tasks of a turn that its messages are in another thread now.

    Their positions there are lower by `by`.
    """
    tasks = Task.objects.filter(user_id=user_id, kind=EXTRACTION, turn_id=turn_id)
    for task in tasks.filter(state__in=OPEN):
        payload = task.payload
        task.payload = {
            **payload,
            "thread": thread_id,
            "first": payload["first"] - by,
            "end": payload["end"] - by,
        }
        task.save(update_fields=["payload"])


@dataclass(frozen=True, slots=True)
class ExtractionTask:
    """A claimed task, and the turn that it is about."""

    task: Task
    user_id: UserId
    agent: str
    thread_id: int
    first_position: int
    end_position: int
    time_zone: str
    is_search_only: bool

    @classmethod
    def read(cls, task: Task) -> "ExtractionTask":
        """Return the extraction of a claimed task."""
        payload = task.payload
        return cls(
            task,
            task.user_id,
            task.agent,
            payload["thread"],
            payload["first"],
            payload["end"],
            payload["time_zone"],
            payload.get("search_only", False),
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Write results in a transaction that locks the task; raises `LeaseLost`.

        So no data is written about a user who was erased meanwhile: an erasure locks
        the same row.
        """
        with transaction.atomic():
            owner = Owner.objects.lock(self.user_id, shared_clock.now())
            self.task.lock_lease()
            if self.time_zone and self.time_zone != owner.time_zone:
                owner.time_zone = self.time_zone
                owner.save(update_fields=["time_zone"])
            yield

    def complete(
        self, *, found: int = 0, saved: int = 0, held: int = 0, skipped: str = ""
    ) -> None:
        """Complete the task, with the reason if nothing was extracted."""
        self.task.complete(
            orjson.dumps({"skipped": skipped}).decode()
            if skipped
            else format_result(found=found, saved=saved, held=held)
        )


class ExtractionResult(NamedTuple):
    found: int = 0
    saved: int = 0
    held: int = 0
    """Of the saved ones, those that wait for a review."""
    skipped: str = ""
    reply: str = ""
    """The model's reply, if it caused the failure."""


class TurnExtraction(NamedTuple):
    """The extraction of facts from a turn, in numbers."""

    state: str
    found: int
    written: int
    held: int
    dropped: int
    skipped: str


def find_extraction(
    user_id: UserId, turn_id: UUID, started_at: datetime, ended_at: datetime
) -> TurnExtraction | None:
    """Return the extraction of a turn; None if there is none, or it was deleted."""
    # The times limit how much of the index of the user's tasks is read.
    times = (started_at, ended_at + MAX_SAVE_TIME)
    tasks = Task.objects.filter(user_id=user_id, kind=EXTRACTION)
    task = tasks.filter(turn_id=turn_id, created_at__range=times).first()
    if task is None:
        return None
    result = read_result(task)
    return TurnExtraction(
        task.state,
        result.found,
        result.saved - result.held,
        result.held,
        result.found - result.saved,
        result.skipped,
    )


def format_result(*, found: int, saved: int, held: int = 0) -> str:
    counts = {"found": found, "saved": saved, **({"held": held} if held else {})}
    return orjson.dumps(counts).decode()


def read_result(task: Task) -> ExtractionResult:
    return ExtractionResult(**orjson.loads(task.result or "{}"))


def failure_result(reply: str) -> str:
    """Return the result of a failed task, with the model's reply."""
    text = make_storable(redaction.redact_own(reply))[:MAX_REPLY_LENGTH]
    return orjson.dumps({"reply": text}).decode() if text else ""


def extractions() -> TaskQuerySet:
    """Return the extraction tasks of all users."""
    return Task.objects.extractions()


def count_by_state(rows: TaskQuerySet, now: datetime | None = None) -> dict[str, int]:
    """Return how many tasks are due, waiting, running, done, skipped and failed.

    Waiting tasks are queued for later; skipped ones have a reason.
    """
    is_open, is_late = Q(state="queued"), Q(due_at__lte=now or shared_clock.now())
    is_running, is_done = Q(state="running"), Q(state="done")
    is_skipped = Q(result__startswith='{"skipped"')
    return rows.aggregate(
        due=Count("pk", filter=(is_open | is_running) & is_late),
        waiting=Count("pk", filter=is_open & ~is_late),
        running=Count("pk", filter=is_running & ~is_late),
        done=Count("pk", filter=is_done & ~is_skipped),
        skipped=Count("pk", filter=is_done & is_skipped),
        failed=Count("pk", filter=Q(state="errored")),
    )
