"""How many turns each variant of an experiment took."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q

from telemetry.models import Origin, Turn


@dataclass(frozen=True, slots=True)
class Traffic:
    """The recorded turns of one variant."""

    served: int = 0
    """Answered for somebody; those of synthetic users leave no record."""
    tried: int = 0
    """Trials beside the variant that answered."""


def by_agent(experiment: str, since: datetime | None = None) -> Mapping[str, Traffic]:
    """Return the turns of an experiment that began then or later, by agent.

    One query, by an index.
    """
    turns = Turn.objects.filter(experiment=experiment)
    if since is not None:
        turns = turns.filter(started_at__gte=since)
    trial = Q(origin=Origin.SHADOW)
    rows = turns.values("agent").annotate(
        served=Count("id", filter=~trial), tried=Count("id", filter=trial)
    )
    return {row["agent"]: Traffic(row["served"], row["tried"]) for row in rows}
