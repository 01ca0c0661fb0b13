"""Reservations of processes that are gone, or seem to be.

A refused request looks for them, at most once a second, so that a killed process blocks
nothing for longer than it takes to notice that its heartbeats have ended.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now

from access.limits.usage_counters import CounterKey
from access.models import UsageReservation
from database.models import RunningProcess
from database.running_processes import GONE_AFTER_SECONDS, HEARTBEAT_SECONDS

LOOK_SECONDS = 1.0
MAX_ENDED = 20
"""A refused request ends no more of them; workers end the others."""
SILENT_AFTER_SECONDS = HEARTBEAT_SECONDS + 2
"""A process that has missed a heartbeat by this much is probably gone."""


class SilentTurns(NamedTuple):
    """Turns that silent processes hold on a counter."""

    turns: int
    released_at: float
    """When the last of them is released unless its process goes on; monotonic."""

    @property
    def seconds(self) -> int:
        return max(1, math.ceil(self.released_at - time.monotonic()))


@dataclass(slots=True)
class _LastLook:
    due_at: float = 0.0
    silent: Mapping[CounterKey, SilentTurns] = field(default_factory=dict)


_last = _LastLook()


def end_reservations() -> tuple[bool, Mapping[CounterKey, SilentTurns]]:
    """Release what processes hold that are gone; return whether there was anything.

    Also returns the turns of processes that are not gone yet, but silent.
    """
    if time.monotonic() < _last.due_at:
        return False, _last.silent
    _last.due_at = time.monotonic() + LOOK_SECONDS
    ended = UsageReservation.objects.end_abandoned(MAX_ENDED)
    _last.silent = _find_silent()
    return bool(ended), _last.silent


def _find_silent() -> dict[CounterKey, SilentTurns]:
    since = ExpressionWrapper(Now() - F("seen_at"), output_field=DurationField())
    processes = RunningProcess.objects.running().filter(
        seen_at__lt=Now() - timedelta(seconds=SILENT_AFTER_SECONDS)
    )
    released_at = {
        process: time.monotonic()
        + (GONE_AFTER_SECONDS - age.total_seconds() + LOOK_SECONDS)
        for process, age in processes.annotate(age=since).values_list("id", "age")
    }
    if not released_at:
        return {}
    found: dict[CounterKey, SilentTurns] = {}
    for row in UsageReservation.objects.filter(process__in=released_at).iterator():
        for update in row.updates:
            turns, until = found.get(update.key, SilentTurns(0, 0.0))
            until = max(until, released_at[row.process])
            found[update.key] = SilentTurns(turns + 1, until)
    return found
