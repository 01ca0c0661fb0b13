"""Triggers that run once per server start, and the detection of a start.

`start` passes an id to its processes, so a restarted worker belongs to the same start.
A separate worker that starts while no other runs is a new start.
"""

import uuid
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, QuerySet

from config.sections import Config
from triggers.config import boot_triggers
from triggers.models import ServerStart
from triggers.runs import run_log, trigger_runs
from triggers.runs.trigger_runs import TriggerRun
from triggers.scheduling import server_start_id

WORKER_TIMEOUT = timedelta(seconds=30)
"""A worker without a heartbeat for so long counts as stopped."""
RETENTION = timedelta(days=30)
NAMESPACE = uuid.UUID("0d6f4f38-4b0a-5d59-8f35-6a4b7a3a4b0e")


def run_boot_triggers(config: Config, now: datetime) -> list[TriggerRun]:
    """Run the boot triggers if this process is the first of its start."""
    with transaction.atomic():
        start = (
            _register_shared_start(now)
            if server_start_id.read_id()
            else _register_separate_start(now)
        )
        if start is None:
            return []
        ServerStart.objects.filter(started_at__lt=now - RETENTION).exclude(
            pk=start.pk
        ).delete()
        runs = [
            trigger_runs.run_trigger(
                trigger_runs.build_event(
                    config, trigger, key=f"boot:{trigger.name}:{start.pk.hex}"
                ),
                now=now,
            )
            for trigger in boot_triggers(config)
        ]
    run_log.log_runs(runs)
    return runs


def _register_shared_start(now: datetime) -> ServerStart | None:
    """Return the start of this process, if it is the first of its processes."""
    start, is_new = ServerStart.objects.get_or_create(
        pk=uuid.uuid5(NAMESPACE, server_start_id.read_id()),
        defaults={"started_at": now},
    )
    return start if is_new else None


def _register_separate_start(now: datetime) -> ServerStart | None:
    """Return a new start if no worker runs; else this worker joins the others."""
    last = _newest_separate_start().select_for_update().first()
    if (
        last is None
        or last.heartbeat_at is None
        or last.heartbeat_at < now - WORKER_TIMEOUT
    ):
        # Two workers that start at once derive the same id.
        previous = "apart" if last is None else last.pk.hex
        last, is_new = ServerStart.objects.get_or_create(
            pk=uuid.uuid5(NAMESPACE, previous),
            defaults={"started_at": now, "is_separate": True, "heartbeat_at": now},
        )
        if is_new:
            return last
    ServerStart.objects.filter(pk=last.pk).update(
        worker_count=F("worker_count") + 1, heartbeat_at=now
    )
    return None


def _newest_separate_start() -> QuerySet[ServerStart]:
    return ServerStart.objects.filter(is_separate=True).order_by("-started_at")


def record_heartbeat(now: datetime) -> None:
    """Record a heartbeat of this worker, if it runs separately."""
    if server_start_id.read_id():
        return
    last = _newest_separate_start().first()
    if last is not None:
        ServerStart.objects.filter(pk=last.pk).update(heartbeat_at=now)


def deregister_worker() -> None:
    """Record that this separate worker stops; the last one ends the start."""
    if server_start_id.read_id():
        return
    with transaction.atomic():
        last = _newest_separate_start().select_for_update().first()
        if last is None:
            return
        last.worker_count -= 1
        if last.worker_count <= 0:
            last.heartbeat_at = None
        last.save(update_fields=["worker_count", "heartbeat_at"])
