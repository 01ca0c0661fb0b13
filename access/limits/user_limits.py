"""The usage of the limits that apply to one user."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from access.limits import time_windows, usage_limits
from access.limits.usage_limits import ActiveLimit, Unit
from access.models import UsageCounter
from access.users.caller import ANONYMOUS
from config.sections import Config
from core.ids import UserId


@dataclass(frozen=True, slots=True)
class LimitUsage:
    label: str
    """The name in messages: "daily token limit"."""
    unit: Unit
    used: int
    maximum: int
    resets_at: datetime | None
    """None if unknown, as for running turns."""

    @property
    def share(self) -> float:
        """The used part, from 0 to 1."""
        return min(1.0, self.used / self.maximum) if self.maximum else 1.0


def list_user_limits(
    config: Config, user_id: UserId, now: datetime
) -> list[LimitUsage]:
    """Return the YAML's limits for a user, in one query at most.

    It omits the limits of the user's agents and tokens, which other users share.
    """
    seconds = int(now.timestamp())
    subject = usage_limits.user_subject(user_id)
    limits = [
        limit
        for limit in usage_limits.find_limits(
            config, ANONYMOUS, user_id, None, requested={}, now=seconds
        )
        if limit.key.subject == subject
    ]
    counters = {
        (counter.window, counter.start): counter
        for counter in (_find_counters(subject, limits) if limits else ())
    }
    return [
        _limit_usage(
            limit, counters.get((limit.key.window.length, limit.key.window.start))
        )
        for limit in limits
    ]


def _find_counters(
    subject: str, limits: Iterable[ActiveLimit]
) -> Iterable[UsageCounter]:
    lengths = {limit.key.window.length for limit in limits}
    starts = {limit.key.window.start for limit in limits}
    return UsageCounter.objects.filter(
        subject=subject, window__in=lengths, start__in=starts
    )


def _limit_usage(limit: ActiveLimit, counter: UsageCounter | None) -> LimitUsage:
    window, rule = limit.key.window, limit.rule
    is_permanent = window.length == time_windows.EVER
    return LimitUsage(
        label=rule.label,
        unit=rule.unit,
        used=0 if counter is None else _used_amount(rule.unit, counter),
        maximum=rule.maximum,
        resets_at=None if is_permanent else datetime.fromtimestamp(window.end, UTC),
    )


def _used_amount(unit: Unit, counter: UsageCounter) -> int:
    """Return the actual usage, without the reservations of running turns."""
    if unit == "turns":
        return counter.turns_reserved_now + counter.turns_reserved_before
    return int(getattr(counter, unit))
