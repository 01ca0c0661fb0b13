"""Runs that are held in this process, beside whatever worker there may be."""

import signal
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from core.ids import UserId
from smoke import runs, verdicts
from smoke.models import Line, Run
from tasks import wake
from tasks.service import Service

LOOK_SECONDS = 0.1
SWEEP_SECONDS = 2.0
"""How often it is looked for runs that were given up."""


@contextmanager
def at_work(users: Collection[UserId]) -> Iterator[None]:
    """Work for these users in this process, until the block is left."""
    service = Service(users=users)
    wake.by(service.kick)
    try:
        with _interrupted_later():
            service.start()
        yield
    finally:
        service.stop()


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Have ^C heard when the block is left, which is not to be left half done."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def watch(run_ids: Collection[uuid.UUID]) -> Iterator[Line | Run]:
    """Yield each line as it is said and each run as it is closed, until all are."""
    left, shown = set(run_ids), set[int]()
    swept_at = time.monotonic()
    while left:
        if time.monotonic() - swept_at > SWEEP_SECONDS:
            runs.sweep()
            swept_at = time.monotonic()
        verdicts.settle_all()
        found = _begun(left)
        for line in _said(found, shown):
            shown.add(line.pk)
            yield line
        for run in found:
            if run.finished_at is not None:
                left.remove(run.pk)
                yield run
        if left:
            time.sleep(LOOK_SECONDS)


def _begun(run_ids: Collection[uuid.UUID]) -> list[Run]:
    waiting = Run.State.QUEUED
    found = Run.objects.filter(pk__in=run_ids).exclude(state=waiting)
    return list(found.order_by("repetition"))


def _said(found: Collection[Run], shown: Collection[int]) -> list[Line]:
    """Return what was said that was not shown, in order."""
    # Read after the runs: one that is closed has said all it says. Their ids first, for
    # a line may be long.
    ids = Line.objects.filter(run__in=found).values_list("pk", flat=True)
    lines = Line.objects.filter(pk__in=[pk for pk in ids if pk not in shown])
    return list(lines.select_related("run").order_by("run__repetition", "position"))
