"""The usage of the limits that apply to one user."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from access.limits import time_windows, usage_limits
from access.limits.usage_limits import ActiveLimit, CountedUnit
from access.models import UsageCounter
from access.users.caller import ANONYMOUS
from config.sections import Config
from core.ids import UserId


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """A limit of a user, with its current usage."""

    label: str
    """The name in messages: "daily token limit"."""
    counted: CountedUnit
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
    caps = usage_limits.find_limits(
        config, ANONYMOUS, user_id, None, asked={}, now=seconds
    )
    subject = usage_limits.user_subject(user_id)
    own = [cap for cap in caps if cap.key.subject == subject]
    meters = {
        (meter.window, meter.start): meter
        for meter in (_find_counters(subject, own) if own else ())
    }
    return [
        _limit_usage(cap, meters.get((cap.key.window.length, cap.key.window.start)))
        for cap in own
    ]


def _find_counters(subject: str, caps: Iterable[ActiveLimit]) -> Iterable[UsageCounter]:
    lengths = {cap.key.window.length for cap in caps}
    starts = {cap.key.window.start for cap in caps}
    return UsageCounter.objects.filter(
        subject=subject, window__in=lengths, start__in=starts
    )


def _limit_usage(cap: ActiveLimit, meter: UsageCounter | None) -> LimitUsage:
    window = cap.key.window
    ever = window.length == time_windows.EVER
    return LimitUsage(
        label=cap.rule.label,
        counted=cap.rule.counted,
        used=0 if meter is None else _used_amount(cap.rule.counted, meter),
        maximum=cap.rule.maximum,
        resets_at=None if ever else datetime.fromtimestamp(window.end, UTC),
    )


def _used_amount(counted: CountedUnit, meter: UsageCounter) -> int:
    """Return the actual usage, without the reservations of running turns."""
    match counted:
        case "requests":
            return meter.requests
        case "tokens":
            return meter.tokens
        case "micro_usd":
            return meter.micro_usd
        case "turns":
            return meter.turns_reserved_now + meter.turns_reserved_before
