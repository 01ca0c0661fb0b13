"""Runs: launched, held, written down as they go, closed, deleted."""

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
from smoke.config import SMOKE_TESTS, SmokeTest
from smoke.errors import RunClosed
from smoke.evaluation import tool_call_log, verdicts
from smoke.execution.dialogue import Said, Speaker, Stop, Talk
from smoke.models import Line, Run
from tasks.config import TASKS
from tasks.models import Task
from tasks.queue import lifecycle
from tasks.queue.lifecycle import Draft
from telemetry.config import TELEMETRY
from telemetry.storage import stored_text as texts

NAMESPACE = uuid.UUID("b0a3c0a6-9f3e-5f4b-8f0a-5e1d8f6f2c11")
KIND = "smoke"
PRIORITY = -20
"""Below what users wait for, and below the judges of what was said already."""
KEEP_DAYS = 30
"""For the runs of tests that are no longer configured."""
GRACE = timedelta(seconds=120)
"""How old a tick of a schedule may be; it is looked for every half minute."""
OPEN = (Run.State.QUEUED, Run.State.RUNNING)

logger = logging.getLogger(__name__)


def launch(
    test: SmokeTest,
    *,
    origin: str,
    repetitions: int | None = None,
    batch: uuid.UUID | None = None,
    once: str | None = None,
) -> list[Run]:
    """Queue a test's conversations, each with a user of its own; return them.

    Of several launches with one text `once` the first is made, the others are not.
    """
    count = test.repetitions if repetitions is None else repetitions
    batch = batch or uuid.uuid4()
    if once is not None:
        batch = uuid.uuid5(NAMESPACE, f"{test.name}\n{once}")
    now = datetime.now(UTC)
    runs = [_run(test, batch, number, origin, now) for number in range(1, count + 1)]
    with transaction.atomic():
        added = {task.key for task in lifecycle.add([_draft(run) for run in runs])}
        runs = [run for run in runs if _key(run.id) in added]
        return Run.objects.bulk_create(runs)


def _run(
    test: SmokeTest, batch: uuid.UUID, number: int, origin: str, now: datetime
) -> Run:
    return Run(
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


def _draft(run: Run) -> Draft:
    return Draft(
        KIND,
        UserId(run.user_id),
        run.target,
        payload={"run": str(run.id)},
        origin=f"smoke:{run.test}"[:300],
        key=_key(run.id),
        priority=PRIORITY,
    )


def _key(run_id: uuid.UUID) -> str:
    return f"smoke:{run_id}"


def begin(run_id: uuid.UUID, attempt: int) -> Talk:
    """Take a run, for this attempt of its task alone; return it as far as it is.

    Raises `RunClosed` for one that is not to be held any more.
    """
    now = datetime.now(UTC)
    mine = Run.objects.filter(pk=run_id, state__in=OPEN, attempt__lt=attempt)
    if not mine.update(state=Run.State.RUNNING, attempt=attempt):
        raise RunClosed
    Run.objects.filter(pk=run_id, started_at=None).update(started_at=now)
    run = Run.objects.get(pk=run_id)
    lines = run.lines.order_by("position").values_list("speaker", "text")
    return Talk(
        run_id,
        attempt,
        UserId(run.user_id),
        SmokeTest.model_validate(run.settings),
        run.target,
        [Said(cast(Speaker, speaker), text) for speaker, text in lines],
    )


def _mine(talk: Talk) -> QuerySet[Run]:
    return Run.objects.filter(
        pk=talk.run_id, state=Run.State.RUNNING, attempt=talk.attempt
    )


def spoke(talk: Talk, said: str, call: ModelCall | None) -> None:
    """Write down what the persona said; raises `queue.Gone` for who lost the run."""
    made = [] if call is None else [call]
    with transaction.atomic():
        cost = trace.cost([*made])
        if not _mine(talk).update(persona_micro_usd=_added("persona_micro_usd", cost)):
            raise lifecycle.Gone
        _write(talk, "persona", said, made, seconds=call.seconds if call else 0.0)


def replied(
    talk: Talk, turn_id: TurnId, began: float, reply: Reply, made: Sequence[Call]
) -> None:
    """Write down what the agent said, in its turn's transaction; raises as `spoke`."""
    said = reply.text or reply.refusal
    agent = next(call.agent for call in made if isinstance(call, ModelCall))
    cost = trace.cost([*made])
    mine = _mine(talk).update(
        agent=agent,
        turns=F("turns") + 1,
        cost_micro_usd=_added("cost_micro_usd", cost),
    )
    if not mine:
        raise lifecycle.Gone
    _write(
        talk,
        "assistant",
        said,
        made,
        seconds=time.perf_counter() - began,
        agent=agent,
        turn_id=turn_id,
    )


def _added(column: str, cost: int | None) -> Any:
    # What is not known makes the sum so.
    return None if cost is None else F(column) + cost


def _write(
    talk: Talk,
    speaker: Speaker,
    said: str,
    made: Sequence[Call],
    *,
    seconds: float | None,
    **fields: Any,
) -> None:
    most_bytes = live.current().get(TELEMETRY).sqlite.max_payload_bytes
    Line.objects.create(
        run_id=talk.run_id,
        position=len(talk.utterances),
        speaker=speaker,
        text=texts.storable(redaction.own(said)),
        calls=tool_call_log.kept(made, most_bytes),
        cost_micro_usd=trace.cost([*made]),
        seconds=seconds or 0.0,
        said_at=datetime.now(UTC),
        **fields,
    )


def ended(talk: Talk, stop: Stop) -> None:
    """Note that a conversation came to its end; its scores are waited for.

    In the transaction that closes its task. Raises as `spoke`.
    """
    now = datetime.now(UTC)
    state = Run.State.JUDGING
    if not _mine(talk).update(state=state, stopped_because=stop, ended_at=now):
        raise lifecycle.Gone
    verdicts.settle(talk.run_id, now=now)


def failed(talk: Talk, stop: Stop, error: str) -> None:
    """Close a run that broke off."""
    now = datetime.now(UTC)
    _mine(talk).update(
        state=Run.State.FAILED,
        stopped_because=stop,
        error=texts.storable(error),
        ended_at=now,
        finished_at=now,
    )


# What others see of runs, and what ends them from outside.


def cancel(run_ids: Collection[uuid.UUID]) -> int:
    """End runs that are not closed, and their scoring: at once, whatever is said."""
    found = Run.objects.filter(pk__in=run_ids, state__in=[*OPEN, Run.State.JUDGING])
    users = list(found.values_list("user_id", flat=True))
    # The conversations, and what judges have yet to score of them. First, for whoever
    # holds one that is cancelled closes its task if that is to end, and else leaves it.
    tasks = Task.objects.filter(user_id__in=users, state__in=lifecycle.OPEN)
    for task_id in list(tasks.values_list("pk", flat=True)):
        lifecycle.cancel(task_id)
    now = datetime.now(UTC)
    return found.update(state=Run.State.CANCELLED, finished_at=now)


def sweep(*, now: datetime | None = None) -> int:
    """Close runs whose tasks ended without them, and those that are judged."""
    now = now or datetime.now(UTC)
    return _close_lost(now) + verdicts.settle_all(now=now)


def _close_lost(now: datetime) -> int:
    """Close runs whose tasks were given up, cancelled or deleted; return how many."""
    closed = 0
    open_ids = list(Run.objects.filter(state__in=OPEN).values_list("pk", flat=True))
    # Read after the runs: what has begun since is not missed among them.
    tasks = Task.objects.filter(kind=KIND, state__in=lifecycle.OPEN)
    held = set(tasks.values_list("key", flat=True)) if open_ids else set()
    for run_id in open_ids:
        if _key(run_id) in held:
            continue
        task = Task.objects.filter(key=_key(run_id)).first()
        if task is not None and task.state in lifecycle.OPEN:
            continue
        is_cancelled = task is not None and task.state == Task.State.CANCELLED
        state = Run.State.CANCELLED if is_cancelled else Run.State.FAILED
        closed += Run.objects.filter(pk=run_id, state__in=OPEN).update(
            state=state,
            stopped_because="" if is_cancelled else Run.Stop.ERROR,
            error=task.error if task is not None else "its task was deleted",
            finished_at=now,
        )
    return closed


def launch_due(*, now: datetime | None = None) -> list[Run]:
    """Launch the tests whose schedules ticked lately, each tick once; return the runs.

    Ticks that are older, because nothing looked, are left out; so are all where no
    work is done, for they would pile up.
    """
    now = now or datetime.now(UTC)
    config = live.current()
    if not config.get(TASKS).enabled:
        return []
    launched = []
    for test in config.get(SMOKE_TESTS).values():
        tick = None if test.times is None else next(test.times.before(now), None)
        if tick is not None and now - tick < GRACE:
            once = f"{tick:%Y-%m-%dT%H:%M:%SZ}"
            runs = launch(test, origin="schedule", once=once)
            if runs:
                told = "smoke test %r is launched by the clock, %d times"
                logger.info(told, test.name, len(runs))
            launched += runs
    return launched


def prune(*, now: datetime | None = None) -> int:
    """Delete runs that are older than their test keeps them; return how many."""
    now = now or datetime.now(UTC)
    tests = live.current().get(SMOKE_TESTS)
    deleted = 0
    for name in list(Run.objects.order_by().values_list("test", flat=True).distinct()):
        keep_days = tests[name].keep_days if name in tests else KEEP_DAYS
        if keep_days is None:
            continue
        old = Run.objects.filter(
            test=name, created_at__lt=now - timedelta(days=keep_days)
        ).exclude(state__in=[*OPEN, Run.State.JUDGING])
        with transaction.atomic():
            lines = Line.objects.filter(run__in=old)
            lines._raw_delete(lines.db)
            deleted += old._raw_delete(old.db)
    return deleted
