"""How much of what one user may use is used."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from access.limits import time_windows, usage_limits
from access.limits.usage_limits import Cap, Counted
from access.models import Meter
from access.users.caller import OPEN
from config.sections import Config
from core.ids import UserId


@dataclass(frozen=True, slots=True)
class Use:
    """One limit of a user's, and how far they are."""

    label: str
    """What to call it: "daily token limit"."""
    counted: Counted
    used: int
    maximum: int
    resets_at: datetime | None
    """None where nobody knows: of turns that run."""

    @property
    def share(self) -> float:
        """How much of it is used, from 0 to 1."""
        return min(1.0, self.used / self.maximum) if self.maximum else 1.0


def of_user(config: Config, user_id: UserId, now: datetime) -> list[Use]:
    """Return the limits of the YAML that hold for a user, in one query at most.

    Those of the agents and tokens they use are others' as well, and not among them.
    """
    seconds = int(now.timestamp())
    caps = usage_limits.of(config, OPEN, user_id, None, asked={}, now=seconds)
    subject = usage_limits.subject_of_user(user_id)
    own = [cap for cap in caps if cap.key.subject == subject]
    meters = {
        (meter.window, meter.start): meter
        for meter in (_meters(subject, own) if own else ())
    }
    return [
        _use(cap, meters.get((cap.key.window.length, cap.key.window.start)))
        for cap in own
    ]


def _meters(subject: str, caps: Iterable[Cap]) -> Iterable[Meter]:
    lengths = {cap.key.window.length for cap in caps}
    starts = {cap.key.window.start for cap in caps}
    return Meter.objects.filter(subject=subject, window__in=lengths, start__in=starts)


def _use(cap: Cap, meter: Meter | None) -> Use:
    window = cap.key.window
    ever = window.length == time_windows.EVER
    return Use(
        label=cap.rule.label,
        counted=cap.rule.counted,
        used=0 if meter is None else _used(cap.rule.counted, meter),
        maximum=cap.rule.maximum,
        resets_at=None if ever else datetime.fromtimestamp(window.end, UTC),
    )


def _used(counted: Counted, meter: Meter) -> int:
    """Return what is used; what is set aside for turns that run is not."""
    match counted:
        case "requests":
            return meter.requests
        case "tokens":
            return meter.tokens
        case "micro_usd":
            return meter.micro_usd
        case "turns":
            return meter.turns_now + meter.turns_before
