"""What fires once at each start of the server, and what a start is.

`start` gives its processes the id of theirs, so a worker that it starts again is of the
same. Where workers run apart, the first of them to come up while no other is there is a
start.
"""

import uuid
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, QuerySet

from config.sections import Config
from triggers.config import boots
from triggers.models import Start
from triggers.runs import run_log, trigger_runs
from triggers.runs.trigger_runs import Firing
from triggers.scheduling import server_start_id

SILENT = timedelta(seconds=30)
"""A worker that has said nothing for so long is gone."""
KEPT = timedelta(days=30)
NAMESPACE = uuid.UUID("0d6f4f38-4b0a-5d59-8f35-6a4b7a3a4b0e")


def begin(config: Config, now: datetime) -> list[Firing]:
    """Fire what fires at the start, if this process is the first to see this one."""
    with transaction.atomic():
        start = _together(now) if server_start_id.given() else _apart(now)
        if start is None:
            return []
        Start.objects.filter(began_at__lt=now - KEPT).exclude(pk=start.pk).delete()
        firings = [
            trigger_runs.fire(
                trigger_runs.occasion(
                    config, trigger, key=f"boot:{trigger.name}:{start.pk.hex}"
                ),
                now=now,
            )
            for trigger in boots(config)
        ]
    run_log.came_of(firings)
    return firings


def _together(now: datetime) -> Start | None:
    """Return the start this process is of, if it is the first of its processes."""
    start, is_new = Start.objects.get_or_create(
        pk=uuid.uuid5(NAMESPACE, server_start_id.given()), defaults={"began_at": now}
    )
    return start if is_new else None


def _apart(now: datetime) -> Start | None:
    """Return a new start, if no worker is there; else this one joins them."""
    last = _latest().select_for_update().first()
    if last is None or last.seen_at is None or last.seen_at < now - SILENT:
        # Two that come up at once name it alike.
        after = "apart" if last is None else last.pk.hex
        last, is_new = Start.objects.get_or_create(
            pk=uuid.uuid5(NAMESPACE, after),
            defaults={"began_at": now, "is_apart": True, "seen_at": now},
        )
        if is_new:
            return last
    Start.objects.filter(pk=last.pk).update(workers=F("workers") + 1, seen_at=now)
    return None


def _latest() -> QuerySet[Start]:
    return Start.objects.filter(is_apart=True).order_by("-began_at")


def stay(now: datetime) -> None:
    """Say that this worker is still there, if it runs apart."""
    if server_start_id.given():
        return
    last = _latest().first()
    if last is not None:
        Start.objects.filter(pk=last.pk).update(seen_at=now)


def leave() -> None:
    """Say that this worker stops, if it runs apart: with the last of them all are."""
    if server_start_id.given():
        return
    with transaction.atomic():
        last = _latest().select_for_update().first()
        if last is None:
            return
        last.workers -= 1
        if last.workers <= 0:
            last.seen_at = None
        last.save(update_fields=["workers", "seen_at"])
