"""How many turns each variant of an experiment took."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q

from telemetry.models import Origin, Turn


@dataclass(frozen=True, slots=True)
class VariantCounts:
    """The recorded turns of one variant."""

    served: int = 0
    """Answered for somebody; those of synthetic users leave no record."""
    shadow_runs: int = 0
    """Trials beside the variant that answered."""


def counts_by_agent(
    experiment: str, since: datetime | None = None
) -> Mapping[str, VariantCounts]:
    """Return the turns of an experiment that began then or later, by agent.

    One query, by an index.
    """
    turns = Turn.objects.filter(experiment=experiment)
    if since is not None:
        turns = turns.filter(started_at__gte=since)
    trial = Q(origin=Origin.SHADOW)
    # Of a column the index has: the turns themselves are not read.
    rows = turns.values("agent").annotate(
        served=Count("agent", filter=~trial), tried=Count("agent", filter=trial)
    )
    return {row["agent"]: VariantCounts(row["served"], row["tried"]) for row in rows}


def counts_by_experiment(
    experiments: Collection[str], since: datetime
) -> Mapping[str, Mapping[str, int]]:
    """Return the turns that variants answered then or later, by experiment and agent.

    One query, by an index.
    """
    turns = Turn.objects.filter(experiment__in=experiments, started_at__gte=since)
    served = turns.exclude(origin=Origin.SHADOW)
    rows = served.values_list("experiment", "agent").order_by()
    found: dict[str, dict[str, int]] = {}
    for experiment, agent, count in rows.annotate(turns=Count("*")):
        if experiment is not None:
            found.setdefault(experiment, {})[agent] = count
    return found
