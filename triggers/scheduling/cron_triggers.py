"""Persistent state of crons: the time up to which the ticks of each are processed.

The first process to check advances that time in the transaction that adds the tasks, so
a tick runs once even if several processes check. The tasks' keys ensure the same again.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile

from django.db import transaction
from django.db.models import F

from config.sections import Config
from triggers.config import CronTrigger, cron_triggers
from triggers.models import TriggerState
from triggers.runs import run_log, trigger_runs
from triggers.runs.trigger_runs import TriggerRun
from triggers.scheduling.cron_schedule import CronSchedule

GRACE = timedelta(seconds=60)
"""Younger ticks run late: a worker that died is back by then."""
CLOCK_SKEW = timedelta(seconds=60)
"""Tolerated difference between the clocks of machines."""
MAX_COUNTED = 10_000
"""Maximum missed ticks that are counted."""
MAX_CAUGHT_UP = 100


def schedule_triggers(config: Config, now: datetime) -> None:
    """Start counting the ticks of new or changed crons from now on.

    Crons that are already scheduled continue from their position, however much was
    missed.
    """
    triggers = {trigger.name: trigger for trigger in cron_triggers(config)}
    with transaction.atomic():
        # A disabled cron misses nothing.
        TriggerState.objects.exclude(schedule="").exclude(name__in=triggers).update(
            schedule=""
        )
        for name in sorted(triggers):
            _schedule_trigger(triggers[name], now)


def _schedule_trigger(trigger: CronTrigger, now: datetime) -> None:
    state = trigger_runs.lock_state(trigger.name)
    schedule = str(trigger.times)
    is_ahead = state.until is not None and state.until > now + CLOCK_SKEW
    if state.schedule == schedule and not is_ahead:
        return
    if state.schedule == schedule and state.until is not None:
        run_log.log_clock_set_back(trigger, state.until)
    state.schedule, state.until = schedule, now
    state.save(update_fields=["schedule", "until"])


def run_due_triggers(
    config: Config, now: datetime, names: Collection[str] | None = None
) -> list[TriggerRun]:
    """Run due crons and log missed ticks, of the named crons or of all."""
    triggers = [
        trigger
        for trigger in cron_triggers(config)
        if names is None or trigger.name in names
    ]
    states = TriggerState.objects.in_bulk([trigger.name for trigger in triggers])
    runs = []
    for trigger in triggers:
        state = states.get(trigger.name)
        # The schedule differs if another process has read a newer YAML.
        if state is not None and state.schedule == str(trigger.times):
            runs += _run_due_ticks(config, trigger, state, now)
    return runs


def _run_due_ticks(
    config: Config, trigger: CronTrigger, state: TriggerState, now: datetime
) -> list[TriggerRun]:
    """Advance a cron to now and run its due ticks, unless another process did."""
    due = None if state.until is None else _due_ticks(trigger, state.until, now)
    if due is None:
        return []
    with transaction.atomic():
        unchanged = TriggerState.objects.filter(
            name=state.name, schedule=state.schedule, until=state.until
        )
        if not unchanged.update(until=due.until):
            return []
        if due.missed:
            TriggerState.objects.filter(name=state.name).update(
                missed=F("missed") + due.missed, missed_at=due.missed_at
            )
        runs = [_run_tick(config, trigger, tick, now) for tick in due.ticks]
    if due.missed:
        run_log.log_missed_ticks(trigger, due.missed, due.missed_at)
    run_log.log_runs(runs)
    return runs


@dataclass(frozen=True, slots=True)
class _DueTicks:
    """The ticks since a cron was last checked."""

    ticks: Sequence[datetime]
    until: datetime
    """The end of that period."""
    missed: int = 0
    """Ticks that are skipped because they are too old."""
    missed_at: datetime | None = None
    """The latest of them."""


def _due_ticks(
    trigger: CronTrigger, until: datetime, now: datetime
) -> _DueTicks | None:
    edge = max(until, now - GRACE)
    fresh = list(takewhile(lambda tick: tick <= now, trigger.times.after(edge)))
    late = _newest_ticks(trigger.times, until, edge)
    if not late:
        return _DueTicks(fresh, fresh[-1]) if fresh else None
    caught_up = _select_catch_up(trigger, late, is_superseded=bool(fresh))
    missed = late[: len(late) - len(caught_up)]
    return _DueTicks(
        ticks=[*caught_up, *fresh],
        until=fresh[-1] if fresh else edge,
        missed=_count_ticks(trigger.times, until, edge) - len(caught_up),
        missed_at=missed[-1] if missed else None,
    )


def _newest_ticks(
    times: CronSchedule, since: datetime, until: datetime
) -> list[datetime]:
    """Return the last ticks of a period in order: one more than are caught up."""
    if since >= until:
        return []
    backwards = takewhile(lambda tick: tick > since, times.before(until))
    return list(islice(backwards, MAX_CAUGHT_UP + 1))[::-1]


def _select_catch_up(
    trigger: CronTrigger, late: Sequence[datetime], *, is_superseded: bool
) -> Sequence[datetime]:
    if trigger.catch_up == "last":
        return () if is_superseded else late[-1:]
    return late[-MAX_CAUGHT_UP:] if trigger.catch_up else ()


def _count_ticks(times: CronSchedule, since: datetime, until: datetime) -> int:
    ticks = takewhile(lambda tick: tick <= until, times.after(since))
    return sum(1 for _ in islice(ticks, MAX_COUNTED))


def _run_tick(
    config: Config, trigger: CronTrigger, tick: datetime, now: datetime
) -> TriggerRun:
    at = f"{tick:%Y-%m-%dT%H:%M:%SZ}"
    event = trigger_runs.build_event(
        config, trigger, key=f"cron:{trigger.name}:{at}", tick=at
    )
    return trigger_runs.run_trigger(event, now=now)
