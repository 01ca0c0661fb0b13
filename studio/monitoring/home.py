"""The home page: a summary of the last 24 hours, and the alerts."""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response

from agents.config import AGENTS
from config import live
from config.overrides import overridable_entries
from judges.ratings import scores
from studio.base.views import StudioView
from studio.monitoring import alerts, bar_charts
from studio.monitoring.alerts import Alert
from telemetry.statistics import recent_activity
from telemetry.statistics.recent_activity import ActivitySummary, AgentStats, HourStats
from telemetry.storage import turn_store
from telemetry.types import TurnListItem
from turns.preparation import routing

DAY = timedelta(days=1)
FAILURES_SHOWN = 5


class HomeFigures(BaseModel):
    """Totals of turns; money in micro-USD."""

    turns: int
    errors: int
    cancelled: int = Field(description="Their client left.")
    input_tokens: int
    output_tokens: int
    micro_usd: int = Field(description="As far as it is known.")
    unpriced: int = Field(description="Turns that cost more than is known.")


class HomeHour(HomeFigures):
    """One hour, in UTC."""

    at: datetime
    users: int
    p50_seconds: float | None
    p95_seconds: float | None


class HomeAgent(HomeFigures):
    """One agent, including those without recent turns."""

    agent: str
    model: str | None = Field(description="None where nothing runs under the name.")
    label: Literal["yaml", "dynamic", "override", "tombstoned"] | None
    error_rate: float | None
    p50_seconds: float | None
    p95_seconds: float | None
    score: float | None = Field(description="The mean of all its judges said.")
    scores: int


class HomeFailedTurn(BaseModel):
    """A failed turn."""

    id: str
    user_id: str
    agent: str
    at: datetime
    error: str


class HomeDay(HomeFigures):
    """The last 24 hours."""

    object: Literal["glance"] = "glance"
    since: datetime
    users: int
    trials: int = Field(description="Turns of shadow variants, in no other figure.")
    judges_micro_usd: int
    judges_unpriced: int
    p50_seconds: float | None
    p95_seconds: float | None
    hours: list[HomeHour]
    agents: list[HomeAgent]
    alerts: list[Alert]
    recent_errors: list[HomeFailedTurn]


class HomeView(StudioView):
    """`/admin/`."""

    title = "Home"
    template = "studio/monitoring/home.html"

    @extend_schema(summary="The last 24 hours at a glance", responses=HomeDay)
    def get(self, request: Request) -> Response:
        """Return the last 24 hours: figures, agents, and alerts."""
        now = datetime.now(UTC)
        seen = recent_activity.summarize_since(now - DAY, now)
        return self.respond(serialize_day(seen), page=lambda: page_context(seen))


def serialize_day(seen: ActivitySummary) -> dict[str, Any]:
    """Return the figures for scripts."""
    since = seen.since
    failed, _ = turn_store.page_turns(
        outcome="error", since=since, limit=FAILURES_SHOWN
    )
    return {
        "object": "glance",
        "since": since,
        **_serialize_figures(seen),
        "users": seen.users,
        "trials": seen.shadow_runs,
        "judges_micro_usd": seen.judges_micro_usd,
        "judges_unpriced": seen.judges_unpriced,
        "p50_seconds": seen.p50_seconds,
        "p95_seconds": seen.p95_seconds,
        "hours": [_serialize_hour(each) for each in seen.hours],
        "agents": _serialize_agents(seen, since),
        "alerts": [each.model_dump() for each in alerts.list_alerts(seen, since)],
        "recent_errors": [_serialize_failed_turn(turn) for turn in failed],
    }


def _serialize_figures(seen: recent_activity.TurnStats) -> dict[str, Any]:
    return {name: getattr(seen, name) for name in HomeFigures.model_fields}


def _serialize_hour(each: HourStats) -> dict[str, Any]:
    times = {"p50_seconds": each.p50_seconds, "p95_seconds": each.p95_seconds}
    return {"at": each.at, **_serialize_figures(each), "users": each.users, **times}


def _serialize_agents(seen: ActivitySummary, since: datetime) -> list[dict[str, Any]]:
    """Return all configured or recorded agents, busiest first."""
    judged = scores.overall_stats_by_agent(since)
    known = {entry.name: entry for entry in overridable_entries.list_entries(AGENTS)}
    busy = {each.agent: each for each in seen.agents}
    found = []
    for name in [*busy, *(name for name in known if name not in busy)]:
        entry, figures = known.get(name), busy.get(name, AgentStats(agent=name))
        given = judged.get(name, scores.NO_SCORES)
        value = None if entry is None else entry.value
        found.append(
            {
                "agent": name,
                "model": None if value is None else f"{value.provider}/{value.model}",
                "label": None if entry is None else entry.label,
                **_serialize_figures(figures),
                "error_rate": figures.error_rate,
                "p50_seconds": figures.p50_seconds,
                "p95_seconds": figures.p95_seconds,
                "score": given.mean if given.count else None,
                "scores": given.count,
            }
        )
    return found


def _serialize_failed_turn(turn: TurnListItem) -> dict[str, Any]:
    return {
        "id": str(turn.turn_id),
        "user_id": str(turn.user_id),
        "agent": turn.agent,
        "at": turn.started_at,
        "error": turn.error or "",
    }


def page_context(seen: ActivitySummary) -> dict[str, Any]:
    """Return the additional context of the page."""
    return {
        "tokens": seen.tokens,
        "error_rate": seen.error_rate,
        "p50_ms": _to_milliseconds(seen.p50_seconds),
        "p95_ms": _to_milliseconds(seen.p95_seconds),
        "charts": bar_charts.hourly_charts(seen.hours),
        "is_fresh": not seen.turns and not turn_store.has_turns(),
        "first_agent": next(iter(routing.list_names(live.current())), ""),
    }


def _to_milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
