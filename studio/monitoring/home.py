"""The home page: a summary of the last 24 hours, and the alerts."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from drf_spectacular.utils import extend_schema
from pydantic import BeforeValidator, Field
from rest_framework.request import Request
from rest_framework.response import Response

from agents.config import AGENTS
from config import live
from config.overrides import overridable_entries
from judges.models import Score
from judges.ratings.statistics import NO_SCORES, ScoreStats
from studio.base.views import StudioView
from studio.monitoring import alerts, hourly_charts
from studio.monitoring.alert import Alert
from telemetry.models import Turn
from telemetry.models.turn_totals import WITHOUT_SPEND
from telemetry.schemas import RowObject, Text
from telemetry.statistics import recent_activity
from telemetry.statistics.recent_activity import ActivitySummary, AgentStats
from turns.preparation import routing

DAY = timedelta(days=1)
FAILURES_SHOWN = 5
VIEW_SPEND = "studio.view_spend"


class HomeAgent(AgentStats):
    """An agent, with or without recent turns."""

    model: str | None = Field(description="Null if it is not configured.")
    label: Literal["yaml", "dynamic", "override", "tombstoned"] | None
    error_rate: float | None
    score: float | None = Field(description="The mean of all its scores.")
    scores: int


class HomeFailedTurn(RowObject):
    """A failed turn."""

    id: Text = Field(validation_alias="turn_id")
    user_id: Text
    agent: str
    at: datetime = Field(validation_alias="started_at")
    error: Annotated[str, BeforeValidator(lambda text: text or "")]


class HomeDay(ActivitySummary):
    """The last 24 hours."""

    object: Literal["activity"] = "activity"
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
        data = serialize_day(load_day(activity), request.user)
        return self.respond(data, page=lambda: page_context(activity, request.user))


def serialize_day(day: HomeDay, user: Any) -> dict[str, Any]:
    """Return the figures that the permissions of a user allow."""
    if not user.has_perm("studio.view_configuration"):
        day.agents, day.alerts = [], []
    if not user.has_perm("telemetry.view_turn"):
        day.recent_errors = []
    return day.model_dump(context={WITHOUT_SPEND: not user.has_perm(VIEW_SPEND)})


def load_day(activity: ActivitySummary) -> HomeDay:
    """Return the figures for scripts."""
    since = activity.since
    failed = Turn.objects.filter(started_at__gte=since).failed().newest_first()
    return HomeDay.model_validate(
        {
            **dict(activity),
            "agents": _list_agents(activity, since),
            "alerts": alerts.list_alerts(activity, since),
            "recent_errors": list(failed[:FAILURES_SHOWN]),
        }
    )


def _list_agents(activity: ActivitySummary, since: datetime) -> list[HomeAgent]:
    """Return all configured or recorded agents, busiest first."""
    scores = Score.objects.filter(judged_at__gte=since).stats_by_agent()
    entries = {entry.name: entry for entry in overridable_entries.list_entries(AGENTS)}
    recorded = [each.agent for each in activity.agents]
    idle = [AgentStats(agent=name) for name in entries if name not in recorded]
    return [
        _agent(each, entries.get(each.agent), scores.get(each.agent, NO_SCORES))
        for each in [*activity.agents, *idle]
    ]


def _agent(stats: AgentStats, entry: Any, judged: ScoreStats) -> HomeAgent:
    value = None if entry is None else entry.value
    return HomeAgent(
        **dict(stats),
        model=None if value is None else f"{value.provider}/{value.model}",
        label=None if entry is None else entry.label,
        error_rate=stats.share_of_errors(),
        score=judged.mean if judged.count else None,
        scores=judged.count,
    )


def page_context(activity: ActivitySummary, user: Any) -> dict[str, Any]:
    return {
        "tokens": activity.tokens,
        "error_rate": activity.share_of_errors(),
        "charts": hourly_charts.build_charts(
            activity.hours, has_cost=user.has_perm(VIEW_SPEND)
        ),
        "has_no_turns": not activity.turns and not Turn.objects.exists(),
        "first_agent": next(iter(routing.list_names(live.current())), ""),
    }
