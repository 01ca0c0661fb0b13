"""Alerts about the processes that share the database, their queue and their disk."""

import shutil
from collections.abc import Iterator
from datetime import datetime

from django.template.defaultfilters import filesizeformat

from core.runtime import shared_clock
from database.running_processes import STATE, WARNINGS
from processes.doctor.host_checks import LOW_BYTES
from processes.supervision import state_directory
from providers.transport import endpoint_pool
from studio.monitoring.alert import Alert
from tasks.models import Task

OLD_SECONDS = 300
"""A task that has been due for so long shows that workers are missing or hang."""
PROCESSES_URL = "/admin/tables/database/runningprocess"
REMEDIES = {
    "no_worker": "Its log says why it ended; `coulisse worker` runs another.",
    "no_beat": "Its log says why it ended; `coulisse beat` runs another.",
    "config_drift": "The column YAML of the processes shows which. Copy the file to "
    "all machines; a change of the file applies without a restart.",
}
"""By the codes of `Fleet.warnings`."""


def list_alerts() -> Iterator[Alert]:
    yield from map(_fleet_alert, STATE.warnings())
    yield from _queue_alerts(shared_clock.now())
    yield from _provider_alerts()
    yield from _disk_alerts()


def _fleet_alert(code: str) -> Alert:
    return Alert(
        level="warn" if code == "config_drift" else "bad",
        message=WARNINGS[code],
        details=REMEDIES[code],
        address=PROCESSES_URL,
    )


def _queue_alerts(now: datetime) -> Iterator[Alert]:
    oldest = Task.objects.oldest_due(now) or now
    if (seconds := (now - oldest).total_seconds()) > OLD_SECONDS:
        yield Alert(
            level="warn",
            message=f"A task has been due for {seconds / 60:,.0f} minutes",
            details="Add workers, or raise tasks.workers.",
            address="/admin/tasks?state=queued",
        )


def _provider_alerts() -> Iterator[Alert]:
    for provider in sorted({name for name, *_ in endpoint_pool.open_circuits()}):
        yield Alert(
            level="warn",
            message=f"Calls of provider '{provider}' are suspended after failures",
            details="They begin again as soon as a probe succeeds.",
            address="/admin/providers",
        )


def _disk_alerts() -> Iterator[Alert]:
    root = state_directory.current_state().root
    free = shutil.disk_usage(root if root.exists() else root.parent).free
    if free < LOW_BYTES:
        shown = filesizeformat(free).replace("\xa0", " ")
        place = state_directory.describe_path(root)
        yield Alert(
            level="bad",
            message=f"The disk of {place} has {shown} free",
            details="Free space on it, or enlarge it.",
        )
