"""Alerts for operators: failures, waiting work, and missing configuration."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

from django.db.models import Case, Count, F, Max, When

from access.authentication import failed_logins
from agents.config import AGENTS
from config import live
from config.loading import resolution
from config.sections import Config
from judges.runs import judge_queue
from memory.extraction import extraction_tasks
from memory.models import Fact
from memory.models.fact_choices import HeldFor
from studio.configuration.file_views import override_url
from studio.monitoring import fleet_alerts
from studio.monitoring.alert import Alert
from tasks.models import Task
from telemetry.config import TELEMETRY
from telemetry.statistics.recent_activity import ActivitySummary

ERROR_RATE_THRESHOLD = 0.05
"""The share of failed turns that causes an alert."""


LAST_HOUR_OFFSET = timedelta(hours=23)
"""The start of the last hour within the last 24 hours."""
BURSTS_SHOWN = 3
FOR_OPERATORS = (HeldFor.INJECTION, HeldFor.CONFLICT)
SCOPE_LABELS = {
    "studio": "For the studio",
    "/v1": "For /v1 and /mcp",
    "mcp_consumer_secret": "With mcp_consumer_secret",
}
FAILED_SIGN_INS_URL = f"/admin/audit?action={failed_logins.ACTION}"


def list_alerts(activity: ActivitySummary, since: datetime) -> list[Alert]:
    """Return all alerts, most severe first."""
    config = live.current()
    found = [
        *_configuration_alerts(config),
        *fleet_alerts.list_alerts(),
        *_turn_alerts(activity),
        *_sign_in_alerts(since + LAST_HOUR_OFFSET),
        *map(_task_alert, failed_tasks(since)),
        *_extraction_alerts(since),
        *_memory_alerts(since),
        *_price_alerts(config, activity),
        *_recording_alerts(config),
    ]
    return sorted(found, key=lambda each: each.level != "bad")


def _configuration_alerts(config: Config) -> Iterator[Alert]:
    if error := live.file_error():
        yield Alert(
            level="bad",
            message=f"{config.path.name} is invalid; the last valid version is in use",
            details=str(error.problems[0]),
            address="/admin/config/edit",
        )
    if error := live.override_error():
        yield Alert(
            level="bad",
            message="The studio's overrides are invalid; this process uses the "
            "previous ones",
            details=str(error.problems[0]),
            address="/admin/overrides",
        )
    for override in config.rejected_overrides:
        yield Alert(
            level="bad",
            message=f"{resolution.rejected_label(override)} does not fit the file "
            "and is not in use",
            details=override.problems[0].message,
            address=override_url(override.section, override.name),
        )
    if sections := live.pending_restart():
        yield Alert(
            level="warn",
            message=f"Restart required to apply changes in {', '.join(sections)}",
            details="`coulisse restart` waits for running replies.",
            address="/admin/settings",
        )


def _turn_alerts(activity: ActivitySummary) -> Iterator[Alert]:
    if activity.errors and (activity.share_of_errors() or 0) >= ERROR_RATE_THRESHOLD:
        worst = max(activity.agents, key=lambda each: each.errors)
        yield Alert(
            level="bad",
            message=f"{activity.errors:,} of {activity.turns:,} turns failed",
            details=f"{worst.errors:,} of them by {worst.agent}.",
            address="/admin/turns?outcome=error",
        )


def _sign_in_alerts(since: datetime) -> Iterator[Alert]:
    """Yield the largest bursts of failed sign-ins in the last hour."""
    bursts = failed_logins.bursts_since(since)
    for burst in bursts[:BURSTS_SHOWN]:
        yield Alert(
            level="warn",
            message=f"{burst} in the last hour",
            details=f"{SCOPE_LABELS.get(burst.scope, burst.scope)}. "
            "Further attempts are delayed. If these are not typing errors, an attacker "
            "may be guessing: choose a long, random password.",
            address=FAILED_SIGN_INS_URL,
        )
    if rest := bursts[BURSTS_SHOWN:]:
        noun = "burst" if len(rest) == 1 else "bursts"
        yield Alert(
            level="warn",
            message=f"{len(rest):,} more {noun} of failed sign-ins in the last hour",
            address=FAILED_SIGN_INS_URL,
        )


@dataclass(frozen=True, slots=True)
class FailedTasks:
    """Failed tasks of one type."""

    kind: str
    name: str
    """The judge; for other tasks the agent."""
    count: int
    last_at: datetime
    """When the newest of them was created."""


def failed_tasks(since: datetime) -> list[FailedTasks]:
    """Return the failed tasks created since an instant, most frequent first."""
    failed = Task.objects.without_extractions().errored().filter(created_at__gte=since)
    subject = Case(When(kind=judge_queue.KIND, then=F("origin")), default=F("agent"))
    rows = failed.values("kind", subject=subject).annotate(
        count=Count("id"), last_at=Max("created_at")
    )
    return [
        FailedTasks(kind, judge_queue.judge_of_origin(name), count, last_at)
        for kind, name, count, last_at in rows.order_by(
            "-count", "subject"
        ).values_list("kind", "subject", "count", "last_at")
    ]


def _task_alert(task: FailedTasks) -> Alert:
    name = quote(task.name, safe="")
    if task.kind == judge_queue.KIND:
        replies = "reply" if task.count == 1 else "replies"
        return Alert(
            level="bad",
            message=f"Judge '{task.name}' could not score {task.count:,} {replies}",
            details="Its page shows the reasons and retries them.",
            address=f"/admin/judges/{name}",
        )
    tasks = "task" if task.count == 1 else "tasks"
    return Alert(
        level="warn",
        message=f"{task.count:,} {tasks} of {task.name} failed",
        address=f"/admin/tasks?state=errored&agent={name}",
    )


def _extraction_alerts(since: datetime) -> Iterator[Alert]:
    failed = extraction_tasks.extractions().errored().filter(finished_at__gte=since)
    if count := failed.count():
        turns = "turn" if count == 1 else "turns"
        yield Alert(
            level="warn",
            message=f"Fact extraction failed for {count:,} {turns}",
            details="Their tasks show the reasons and can be retried.",
            address="/admin/tasks?kind=extraction&state=errored",
        )


def _memory_alerts(since: datetime) -> Iterator[Alert]:
    held = Fact.objects.filter(status="pending_review", held_for__in=FOR_OPERATORS)
    if count := held.filter(created_at__gte=since).count():
        facts = "1 new fact is" if count == 1 else f"{count:,} new facts are"
        yield Alert(
            level="warn",
            message=f"{facts} pending review",
            details="They look like instructions, or contradict what a person set.",
            address="/admin/facts?status=pending_review",
        )


def _price_alerts(config: Config, activity: ActivitySummary) -> Iterator[Alert]:
    unpriced = {each.agent: each.unpriced for each in activity.agents if each.unpriced}
    if not unpriced:
        return
    agents = config.get(AGENTS)
    models = sorted(
        f"{agent.provider}/{agent.model}"
        for agent in map(agents.get, unpriced)
        if agent is not None
    )
    yield Alert(
        level="warn",
        message="1 turn has no price"
        if activity.unpriced == 1
        else f"{activity.unpriced:,} turns have no price",
        details=f"Missing under prices: {', '.join(dict.fromkeys(models))}"
        if models
        else "",
        address="/admin/spend?by=model",
    )


def _recording_alerts(config: Config) -> Iterator[Alert]:
    if not config.get(TELEMETRY).sqlite.enabled:
        yield Alert(
            level="warn",
            message="Turns are not recorded, so most figures are empty",
            details="Set telemetry: {sqlite: {enabled: true}}.",
            address="/admin/telemetry",
        )
