"""Life cycle of runs: launched, run, stored message by message, closed, deleted."""

import logging
import time
import uuid
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from django.db import transaction
from django.db.models import F, QuerySet

from config import live
from core import trace
from core.ids import TurnId, UserId
from core.reply import Reply
from core.text import redaction
from core.trace import Call, ModelCall
from smoke.config import SMOKE_TESTS, SmokeTestConfig
from smoke.errors import RunClosed
from smoke.evaluation import tool_call_log, verdicts
from smoke.execution.dialogue import Dialogue, Speaker, Stop, Utterance
from smoke.models import SmokeMessage, SmokeRun
from tasks.config import TASKS
from tasks.models import Task
from tasks.queue import lifecycle
from tasks.queue.lifecycle import TaskSpec
from telemetry.config import TELEMETRY
from telemetry.storage import stored_text

NAMESPACE = uuid.UUID("b0a3c0a6-9f3e-5f4b-8f0a-5e1d8f6f2c11")
KIND = "smoke"
PRIORITY = -20
"""Below what users wait for, and below judges."""
KEEP_DAYS = 30
"""Applies to runs of tests that are no longer configured."""
SCHEDULE_GRACE = timedelta(seconds=120)
"""Maximum age of a schedule's tick; schedules are checked every half minute."""
OPEN = (SmokeRun.State.QUEUED, SmokeRun.State.RUNNING)

logger = logging.getLogger(__name__)


def launch_test(
    test: SmokeTestConfig,
    *,
    origin: str,
    repetitions: int | None = None,
    batch: uuid.UUID | None = None,
    once: str | None = None,
) -> list[SmokeRun]:
    """Enqueue a test's conversations, each with its own user; return them.

    If `once` is set, further launches with the same value have no effect.
    """
    count = test.repetitions if repetitions is None else repetitions
    batch = batch or uuid.uuid4()
    if once is not None:
        batch = uuid.uuid5(NAMESPACE, f"{test.name}\n{once}")
    now = datetime.now(UTC)
    runs = [
        _new_run(test, batch, number, origin, now) for number in range(1, count + 1)
    ]
    with transaction.atomic():
        added = {
            task.key for task in lifecycle.enqueue([_build_task(run) for run in runs])
        }
        runs = [run for run in runs if _task_key(run.id) in added]
        return SmokeRun.objects.bulk_create(runs)


def _new_run(
    test: SmokeTestConfig, batch: uuid.UUID, number: int, origin: str, now: datetime
) -> SmokeRun:
    return SmokeRun(
        id=uuid.uuid5(batch, str(number)),
        batch=batch,
        repetition=number,
        test=test.name,
        target=test.target,
        user_id=uuid.uuid4(),
        origin=origin,
        settings=test.model_dump(mode="json"),
        created_at=now,
    )


def _build_task(run: SmokeRun) -> TaskSpec:
    return TaskSpec(
        KIND,
        UserId(run.user_id),
        run.target,
        payload={"run": str(run.id)},
        origin=f"smoke:{run.test}"[:300],
        key=_task_key(run.id),
        priority=PRIORITY,
    )


def _task_key(run_id: uuid.UUID) -> str:
    return f"smoke:{run_id}"


def begin_run(run_id: uuid.UUID, attempt: int) -> Dialogue:
    """Reserve a run for this attempt of its task; return its state so far.

    Raises `RunClosed` for a run that may no longer start.
    """
    now = datetime.now(UTC)
    free = SmokeRun.objects.filter(pk=run_id, state__in=OPEN, attempt__lt=attempt)
    if not free.update(state=SmokeRun.State.RUNNING, attempt=attempt):
        raise RunClosed
    SmokeRun.objects.filter(pk=run_id, started_at=None).update(started_at=now)
    run = SmokeRun.objects.get(pk=run_id)
    messages = run.messages.order_by("position").values_list("speaker", "text")
    return Dialogue(
        run_id,
        attempt,
        UserId(run.user_id),
        SmokeTestConfig.model_validate(run.settings),
        run.target,
        [Utterance(cast(Speaker, speaker), text) for speaker, text in messages],
    )


def _claimed_run(dialogue: Dialogue) -> QuerySet[SmokeRun]:
    return SmokeRun.objects.filter(
        pk=dialogue.run_id, state=SmokeRun.State.RUNNING, attempt=dialogue.attempt
    )


def store_persona_message(
    dialogue: Dialogue, text: str, call: ModelCall | None
) -> None:
    """Store a persona's message; raises `LeaseLost` if the run is lost."""
    calls = [] if call is None else [call]
    with transaction.atomic():
        cost = trace.total_cost([*calls])
        if not _claimed_run(dialogue).update(
            persona_micro_usd=_add_cost("persona_micro_usd", cost)
        ):
            raise lifecycle.LeaseLost
        seconds = call.seconds if call else 0.0
        _store_message(dialogue, "persona", text, calls, seconds=seconds)


def store_agent_reply(
    dialogue: Dialogue,
    turn_id: TurnId,
    started: float,
    reply: Reply,
    calls: Sequence[Call],
) -> None:
    """Store an agent's reply, in its turn's transaction; raises the same errors.

    `started` is the turn's start on the clock of `time.perf_counter`.
    """
    agent = next(call.agent for call in calls if isinstance(call, ModelCall))
    cost = trace.total_cost([*calls])
    is_stored = _claimed_run(dialogue).update(
        agent=agent,
        turns=F("turns") + 1,
        cost_micro_usd=_add_cost("cost_micro_usd", cost),
    )
    if not is_stored:
        raise lifecycle.LeaseLost
    _store_message(
        dialogue,
        "assistant",
        reply.text or reply.refusal,
        calls,
        seconds=time.perf_counter() - started,
        agent=agent,
        turn_id=turn_id,
    )


def _add_cost(column: str, cost: int | None) -> Any:
    # An unknown cost makes the sum unknown.
    return None if cost is None else F(column) + cost


def _store_message(
    dialogue: Dialogue,
    speaker: Speaker,
    text: str,
    calls: Sequence[Call],
    *,
    seconds: float | None,
    **fields: Any,
) -> None:
    max_bytes = live.current().get(TELEMETRY).sqlite.max_payload_bytes
    SmokeMessage.objects.create(
        run_id=dialogue.run_id,
        position=len(dialogue.utterances),
        speaker=speaker,
        text=stored_text.make_storable(redaction.redact_own(text)),
        calls=tool_call_log.serialize_calls(calls, max_bytes),
        cost_micro_usd=trace.total_cost([*calls]),
        seconds=seconds or 0.0,
        sent_at=datetime.now(UTC),
        **fields,
    )


def end_dialogue(dialogue: Dialogue, stop: Stop) -> None:
    """Store that a conversation ended; the run then waits for its scores.

    Runs in the transaction that completes its task, and raises the same errors.
    """
    now = datetime.now(UTC)
    state = SmokeRun.State.JUDGING
    claimed = _claimed_run(dialogue)
    if not claimed.update(state=state, stopped_because=stop, ended_at=now):
        raise lifecycle.LeaseLost
    verdicts.close_if_judged(dialogue.run_id, now=now)


def fail_run(dialogue: Dialogue, stop: Stop, error: str) -> None:
    """Close an interrupted run."""
    now = datetime.now(UTC)
    _claimed_run(dialogue).update(
        state=SmokeRun.State.FAILED,
        stopped_because=stop,
        error=stored_text.make_storable(error),
        ended_at=now,
        finished_at=now,
    )


# Access from outside: closing, launching and deleting.


def cancel_runs(run_ids: Collection[uuid.UUID]) -> int:
    """Cancel open runs and their judging at once."""
    found = SmokeRun.objects.filter(
        pk__in=run_ids, state__in=[*OPEN, SmokeRun.State.JUDGING]
    )
    users = list(found.values_list("user_id", flat=True))
    # The conversations, and the open tasks of judges. First, because the handler of a
    # cancelled task closes the run.
    tasks = Task.objects.filter(user_id__in=users, state__in=lifecycle.OPEN)
    for task_id in list(tasks.values_list("pk", flat=True)):
        lifecycle.cancel(task_id)
    now = datetime.now(UTC)
    return found.update(state=SmokeRun.State.CANCELLED, finished_at=now)


def close_finished_runs(*, now: datetime | None = None) -> int:
    """Close runs whose tasks ended without them, and judged runs."""
    now = now or datetime.now(UTC)
    return _close_abandoned(now) + verdicts.close_judged_runs(now=now)


def _close_abandoned(now: datetime) -> int:
    """Close runs whose tasks failed, were cancelled or deleted; return how many."""
    closed = 0
    open_ids = list(
        SmokeRun.objects.filter(state__in=OPEN).values_list("pk", flat=True)
    )
    # Read after the runs, so that tasks created meanwhile are not missing.
    tasks = Task.objects.filter(kind=KIND, state__in=lifecycle.OPEN)
    task_keys = set(tasks.values_list("key", flat=True)) if open_ids else set()
    for run_id in open_ids:
        if _task_key(run_id) in task_keys:
            continue
        task = Task.objects.filter(key=_task_key(run_id)).first()
        if task is not None and task.state in lifecycle.OPEN:
            continue
        is_cancelled = task is not None and task.state == Task.State.CANCELLED
        state = SmokeRun.State.CANCELLED if is_cancelled else SmokeRun.State.FAILED
        closed += SmokeRun.objects.filter(pk=run_id, state__in=OPEN).update(
            state=state,
            stopped_because="" if is_cancelled else SmokeRun.Stop.ERROR,
            error=task.error if task is not None else "its task was deleted",
            finished_at=now,
        )
    return closed


def launch_due(*, now: datetime | None = None) -> list[SmokeRun]:
    """Launch the tests whose schedules ticked recently, once per tick; return the runs.

    Older ticks are skipped; so are all while no tasks run, because they would
    accumulate.
    """
    now = now or datetime.now(UTC)
    config = live.current()
    if not config.get(TASKS).enabled:
        return []
    launched = []
    for test in config.get(SMOKE_TESTS).values():
        tick = None if test.times is None else next(test.times.before(now), None)
        if tick is not None and now - tick < SCHEDULE_GRACE:
            once = f"{tick:%Y-%m-%dT%H:%M:%SZ}"
            runs = launch_test(test, origin="schedule", once=once)
            if runs:
                message = "smoke test %r launched by its schedule: %d conversations"
                logger.info(message, test.name, len(runs))
            launched += runs
    return launched


def delete_expired(*, now: datetime | None = None) -> int:
    """Delete runs older than their test's `keep_days`; return how many."""
    now = now or datetime.now(UTC)
    tests = live.current().get(SMOKE_TESTS)
    deleted = 0
    for name in list(
        SmokeRun.objects.order_by().values_list("test", flat=True).distinct()
    ):
        keep_days = tests[name].keep_days if name in tests else KEEP_DAYS
        if keep_days is None:
            continue
        old = SmokeRun.objects.filter(
            test=name, created_at__lt=now - timedelta(days=keep_days)
        ).exclude(state__in=[*OPEN, SmokeRun.State.JUDGING])
        with transaction.atomic():
            messages = SmokeMessage.objects.filter(run__in=old)
            messages._raw_delete(messages.db)
            deleted += old._raw_delete(old.db)
    return deleted
