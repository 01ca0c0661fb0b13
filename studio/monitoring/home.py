"""The first page: the last day at a glance, and what to look at."""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response

from agents.config import AGENTS
from config import live
from config.overrides import override_editor
from judges.ratings import scores
from studio.base.views import Face
from studio.monitoring import alerts, bar_charts
from studio.monitoring.alerts import Concern
from telemetry.statistics import recent_activity
from telemetry.statistics.recent_activity import AgentFigures, Glance, HourFigures
from telemetry.storage import turn_store
from telemetry.types import Listed
from turns.preparation import routing

DAY = timedelta(days=1)
ERRORS_SHOWN = 5


class Figures(BaseModel):
    """What turns were like together; money in micro-USD."""

    turns: int
    errors: int
    cancelled: int = Field(description="Their client left.")
    input_tokens: int
    output_tokens: int
    micro_usd: int = Field(description="As far as it is known.")
    unpriced: int = Field(description="Turns that cost more than is known.")


class Hour(Figures):
    """One hour, in UTC."""

    at: datetime
    users: int
    p50_seconds: float | None
    p95_seconds: float | None


class Agent(Figures):
    """One agent, those not asked lately too."""

    agent: str
    model: str | None = Field(description="None where nothing runs under the name.")
    label: Literal["yaml", "dynamic", "override", "tombstoned"] | None
    error_rate: float | None
    p50_seconds: float | None
    p95_seconds: float | None
    score: float | None = Field(description="The mean of all its judges said.")
    scores: int


class Failed(BaseModel):
    """A turn that failed."""

    id: str
    user_id: str
    agent: str
    at: datetime
    error: str


class Day(Figures):
    """The last 24 hours."""

    object: Literal["glance"] = "glance"
    since: datetime
    users: int
    trials: int = Field(description="Turns of shadow variants, in no other figure.")
    judges_micro_usd: int
    judges_unpriced: int
    p50_seconds: float | None
    p95_seconds: float | None
    hours: list[Hour]
    agents: list[Agent]
    attention: list[Concern]
    errors_lately: list[Failed]


class Home(Face):
    """`/admin/`."""

    title = "Home"
    template = "studio/home.html"

    @extend_schema(summary="The last 24 hours at a glance", responses=Day)
    def get(self, request: Request) -> Response:
        """Tell of the last 24 hours: figures, agents, and what to look at."""
        now = datetime.now(UTC)
        seen = recent_activity.since(now - DAY, now)
        return self.respond(day(seen), page=lambda: shown(seen))


def day(seen: Glance) -> dict[str, Any]:
    """Return the figures as scripts get them."""
    since = seen.since
    failed, _ = turn_store.page(outcome="error", since=since, limit=ERRORS_SHOWN)
    return {
        "object": "glance",
        "since": since,
        **_figures(seen),
        "users": seen.users,
        "trials": seen.shadow_runs,
        "judges_micro_usd": seen.judges_micro_usd,
        "judges_unpriced": seen.judges_unpriced,
        "p50_seconds": seen.p50_seconds,
        "p95_seconds": seen.p95_seconds,
        "hours": [_hour(each) for each in seen.hours],
        "agents": _agents(seen, since),
        "attention": [each.model_dump() for each in alerts.concerns(seen, since)],
        "errors_lately": [_failed(turn) for turn in failed],
    }


def _figures(seen: recent_activity.Figures) -> dict[str, Any]:
    return {name: getattr(seen, name) for name in Figures.model_fields}


def _hour(each: HourFigures) -> dict[str, Any]:
    times = {"p50_seconds": each.p50_seconds, "p95_seconds": each.p95_seconds}
    return {"at": each.at, **_figures(each), "users": each.users, **times}


def _agents(seen: Glance, since: datetime) -> list[dict[str, Any]]:
    """Return all agents there are or were, the busiest first."""
    judged = scores.by_agent(since)
    known = {entry.name: entry for entry in override_editor.listed(AGENTS)}
    busy = {each.agent: each for each in seen.agents}
    found = []
    for name in [*busy, *(name for name in known if name not in busy)]:
        entry, figures = known.get(name), busy.get(name, AgentFigures(agent=name))
        given = judged.get(name, scores.NONE)
        value = None if entry is None else entry.value
        found.append(
            {
                "agent": name,
                "model": None if value is None else f"{value.provider}/{value.model}",
                "label": None if entry is None else entry.label,
                **_figures(figures),
                "error_rate": figures.error_rate,
                "p50_seconds": figures.p50_seconds,
                "p95_seconds": figures.p95_seconds,
                "score": given.mean if given.count else None,
                "scores": given.count,
            }
        )
    return found


def _failed(turn: Listed) -> dict[str, Any]:
    return {
        "id": str(turn.turn_id),
        "user_id": str(turn.user_id),
        "agent": turn.agent,
        "at": turn.started_at,
        "error": turn.error or "",
    }


def shown(seen: Glance) -> dict[str, Any]:
    """Return what the page shows besides."""
    return {
        "tokens": seen.tokens,
        "error_rate": seen.error_rate,
        "p50_ms": _ms(seen.p50_seconds),
        "p95_ms": _ms(seen.p95_seconds),
        "charts": bar_charts.of_hours(seen.hours),
        "is_fresh": not seen.turns and not turn_store.is_any(),
        "first_agent": next(iter(routing.names(live.current())), ""),
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
