"""Number of turns of each variant of an experiment."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q

from telemetry.models import Origin, Turn


@dataclass(frozen=True, slots=True)
class VariantCounts:
    """The recorded turns of one variant."""

    served: int = 0
    """Replies to users; turns of synthetic users are not recorded."""
    shadow_runs: int = 0
    """Shadow runs of the variant."""


def counts_by_agent(
    experiment: str, since: datetime | None = None
) -> Mapping[str, VariantCounts]:
    """Return the turns of an experiment since then, by agent.

    One query, by an index.
    """
    turns = Turn.objects.filter(experiment=experiment)
    if since is not None:
        turns = turns.filter(started_at__gte=since)
    is_shadow_run = Q(origin=Origin.SHADOW)
    # Counts a column of the index, so that rows of turns are not read.
    rows = turns.values("agent").annotate(
        served=Count("agent", filter=~is_shadow_run),
        shadow_runs=Count("agent", filter=is_shadow_run),
    )
    return {
        row["agent"]: VariantCounts(row["served"], row["shadow_runs"]) for row in rows
    }


def counts_by_experiment(
    experiments: Collection[str], since: datetime
) -> Mapping[str, Mapping[str, int]]:
    """Return the replies of variants since then, by experiment and agent.

    One query, by an index.
    """
    turns = Turn.objects.filter(experiment__in=experiments, started_at__gte=since)
    served = turns.exclude(origin=Origin.SHADOW)
    rows = served.values_list("experiment", "agent").order_by()
    counts: dict[str, dict[str, int]] = {}
    for experiment, agent, count in rows.annotate(turns=Count("*")):
        if experiment is not None:
            counts.setdefault(experiment, {})[agent] = count
    return counts
