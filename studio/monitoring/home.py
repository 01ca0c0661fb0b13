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
    cancelled: int = Field(description="The client disconnected.")
    input_tokens: int
    output_tokens: int
    micro_usd: int = Field(description="Without the unpriced turns.")
    unpriced: int = Field(description="Turns without a price.")


class HomeHour(HomeFigures):
    """One hour, in UTC."""

    at: datetime
    users: int
    p50_seconds: float | None
    p95_seconds: float | None


class HomeAgent(HomeFigures):
    """An agent, with or without recent turns."""

    agent: str
    model: str | None = Field(description="Null if it is not configured.")
    label: Literal["yaml", "dynamic", "override", "tombstoned"] | None
    error_rate: float | None
    p50_seconds: float | None
    p95_seconds: float | None
    score: float | None = Field(description="The mean of all its scores.")
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

    object: Literal["activity"] = "activity"
    since: datetime
    users: int
    shadow_runs: int = Field(description="Not included in the other figures.")
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

    @extend_schema(summary="Show the last 24 hours", responses=HomeDay)
    def get(self, request: Request) -> Response:
        """Return the last 24 hours: figures, agents, and alerts."""
        now = datetime.now(UTC)
        activity = recent_activity.summarize_since(now - DAY, now)
        return self.respond(
            serialize_day(activity), page=lambda: page_context(activity)
        )


def serialize_day(activity: ActivitySummary) -> dict[str, Any]:
    """Return the figures for scripts."""
    since = activity.since
    failed, _ = turn_store.page_turns(
        outcome="error", since=since, limit=FAILURES_SHOWN
    )
    return {
        "object": "activity",
        "since": since,
        **_serialize_figures(activity),
        "users": activity.users,
        "shadow_runs": activity.shadow_runs,
        "judges_micro_usd": activity.judges_micro_usd,
        "judges_unpriced": activity.judges_unpriced,
        "p50_seconds": activity.p50_seconds,
        "p95_seconds": activity.p95_seconds,
        "hours": [_serialize_hour(each) for each in activity.hours],
        "agents": _serialize_agents(activity, since),
        "alerts": [each.model_dump() for each in alerts.list_alerts(activity, since)],
        "recent_errors": [_serialize_failed_turn(turn) for turn in failed],
    }


def _serialize_figures(stats: recent_activity.TurnStats) -> dict[str, Any]:
    return {name: getattr(stats, name) for name in HomeFigures.model_fields}


def _serialize_hour(each: HourStats) -> dict[str, Any]:
    times = {"p50_seconds": each.p50_seconds, "p95_seconds": each.p95_seconds}
    return {"at": each.at, **_serialize_figures(each), "users": each.users, **times}


def _serialize_agents(
    activity: ActivitySummary, since: datetime
) -> list[dict[str, Any]]:
    """Return all configured or recorded agents, busiest first."""
    scores_by_agent = scores.overall_stats_by_agent(since)
    entries = {entry.name: entry for entry in overridable_entries.list_entries(AGENTS)}
    stats_by_agent = {each.agent: each for each in activity.agents}
    agents = []
    for name in [
        *stats_by_agent,
        *(name for name in entries if name not in stats_by_agent),
    ]:
        entry = entries.get(name)
        figures = stats_by_agent.get(name, AgentStats(agent=name))
        judged = scores_by_agent.get(name, scores.NO_SCORES)
        value = None if entry is None else entry.value
        agents.append(
            {
                "agent": name,
                "model": None if value is None else f"{value.provider}/{value.model}",
                "label": None if entry is None else entry.label,
                **_serialize_figures(figures),
                "error_rate": figures.error_rate,
                "p50_seconds": figures.p50_seconds,
                "p95_seconds": figures.p95_seconds,
                "score": judged.mean if judged.count else None,
                "scores": judged.count,
            }
        )
    return agents


def _serialize_failed_turn(turn: TurnListItem) -> dict[str, Any]:
    return {
        "id": str(turn.turn_id),
        "user_id": str(turn.user_id),
        "agent": turn.agent,
        "at": turn.started_at,
        "error": turn.error or "",
    }


def page_context(activity: ActivitySummary) -> dict[str, Any]:
    """Return the additional context of the page."""
    return {
        "tokens": activity.tokens,
        "error_rate": activity.error_rate,
        "p50_ms": _to_milliseconds(activity.p50_seconds),
        "p95_ms": _to_milliseconds(activity.p95_seconds),
        "charts": bar_charts.hourly_charts(activity.hours),
        "has_no_turns": not activity.turns and not turn_store.has_turns(),
        "first_agent": next(iter(routing.list_names(live.current())), ""),
    }


def _to_milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
