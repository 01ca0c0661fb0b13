"""The limits that apply to a request.

An active limit is a maximum for one counter. Limits come from the request's metadata
(its user's tokens), from the YAML's `limits:` and from the token's budget.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Literal

from access.limits import dollars, time_windows
from access.limits.config import LIMITS, Limit
from access.limits.usage_counters import CounterKey
from access.models import ApiToken as TokenRow
from access.users import identity
from access.users.caller import Caller, VerifiedToken
from config.sections import Config
from core.ids import UserId

Unit = Literal["requests", "tokens", "micro_usd", "turns"]

LIMIT_RULES: dict[str, tuple[Unit, int, str]] = {
    "requests_per_minute": (
        "requests",
        time_windows.MINUTE,
        "per-minute request limit",
    ),
    "requests_per_hour": ("requests", time_windows.HOUR, "hourly request limit"),
    "requests_per_day": ("requests", time_windows.DAY, "daily request limit"),
    "tokens_per_minute": ("tokens", time_windows.MINUTE, "per-minute token limit"),
    "tokens_per_hour": ("tokens", time_windows.HOUR, "hourly token limit"),
    "tokens_per_day": ("tokens", time_windows.DAY, "daily token limit"),
    "tokens_per_month": ("tokens", time_windows.MONTH, "monthly token limit"),
    "usd_per_day": ("micro_usd", time_windows.DAY, "daily spending limit"),
    "usd_per_month": (
        "micro_usd",
        time_windows.CALENDAR_MONTH,
        "monthly spending limit",
    ),
    "concurrent": ("turns", time_windows.EVER, "limit of concurrent turns"),
}
"""The unit, window and label of each field of `limits:`."""


@dataclass(frozen=True, slots=True)
class LimitRule:
    """A maximum for one unit within a window."""

    unit: Unit
    length: int
    """The window length, as in `time_windows`."""
    maximum: int
    label: str
    """The name in messages: "daily token limit"."""


@dataclass(frozen=True, slots=True)
class ActiveLimit:
    """A maximum for one counter."""

    key: CounterKey
    rule: LimitRule
    owner_label: str = ""
    """A suffix of the label in messages; "" for a limit that the request sets."""
    is_budget: bool = False


def user_subject(user_id: UserId) -> str:
    """Return the counter subject of a user."""
    return f"user:{user_id.hex}"


def token_subject(token: VerifiedToken | TokenRow) -> str:
    """Return the counter subject of a token."""
    return f"token:{token.id.hex}"


def find_limits(
    config: Config,
    caller: Caller,
    user_id: UserId,
    agent: str | None,
    *,
    experiment: str = "",
    requested: Mapping[str, int],
    now: int,
) -> list[ActiveLimit]:
    """Return all limits that apply to a request.

    `requested` are the request's own limits on its user's tokens: `hour`, `day`,
    `month`. A
    turn of an experiment counts for the variant, and for the experiment if a limit
    names it. Limits of agents do not apply to a request without an agent.
    """
    user = user_subject(user_id)
    limits = [
        _active_limit(user, _requested_rule(period, maximum), now)
        for period, maximum in requested.items()
    ]
    for limit in config.get(LIMITS):
        agents = None if agent is None else (agent, experiment)
        subject = _limit_subject(limit, caller, user_id, agents)
        if subject is not None:
            owner = "user" if limit.per == "principal" else limit.per
            limits += [
                _active_limit(subject, rule, now, f"of this {owner}")
                for rule in limit_rules(limit)
            ]
    if caller.token is not None and caller.token.budget != "unlimited":
        limits.append(_token_budget(caller.token, now))
    return limits


def user_keys(user_id: UserId, *, now: int) -> list[CounterKey]:
    """Return the counters of a user that requests may limit."""
    user = user_subject(user_id)
    lengths = (time_windows.HOUR, time_windows.DAY, time_windows.MONTH)
    return [CounterKey(user, time_windows.window_at(length, now)) for length in lengths]


def token_keys(token: VerifiedToken, *, now: int) -> list[CounterKey]:
    """Return the counters of a token: for all time, and for the calendar month."""
    subject = token_subject(token)
    return [
        CounterKey(subject, time_windows.window_at(length, now))
        for length in (time_windows.EVER, time_windows.CALENDAR_MONTH)
    ]


def _active_limit(
    subject: str, rule: LimitRule, now: int, owner_label: str = ""
) -> ActiveLimit:
    key = CounterKey(subject, time_windows.window_at(rule.length, now))
    return ActiveLimit(key, rule, owner_label)


@lru_cache(maxsize=1024)
def _requested_rule(period: str, maximum: int) -> LimitRule:
    unit, length, label = LIMIT_RULES[f"tokens_per_{period}"]
    return LimitRule(unit, length, maximum, label)


def _limit_subject(
    limit: Limit, caller: Caller, user_id: UserId, agents: tuple[str, str] | None
) -> str | None:
    """Return the counter subject of a limit; None if the limit does not apply.

    `agents` are the replying agent, and the experiment that chose it, if any; None for
    a request without an agent.
    """
    match limit.per:
        case "principal":
            is_named = limit.name is None or user_id in identity.possible_user_ids(
                limit.name
            )
            return user_subject(user_id) if is_named else None
        case "agent":
            if agents is None:
                return None
            name = agents[0] if limit.name is None else limit.name
            return f"agent:{name}" if name in agents else None
        case "token":
            token = caller.token
            if token is None or limit.name not in (None, token.label):
                return None
            return token_subject(token)


@lru_cache(maxsize=1024)
def limit_rules(limit: Limit) -> tuple[LimitRule, ...]:
    """Return the rules of an entry of `limits:`."""
    return tuple(
        LimitRule(unit, length, _rule_maximum(value), label)
        for field, (unit, length, label) in LIMIT_RULES.items()
        if (value := getattr(limit, field)) is not None
    )


def _rule_maximum(value: int | Decimal) -> int:
    return int(value * dollars.MICRO_PER_USD) if isinstance(value, Decimal) else value


def _token_budget(token: VerifiedToken, now: int) -> ActiveLimit:
    is_total = token.budget == "total"
    length = time_windows.EVER if is_total else time_windows.CALENDAR_MONTH
    rule = LimitRule("micro_usd", length, token.limit_micro_usd or 0, "budget")
    key = CounterKey(token_subject(token), time_windows.window_at(length, now))
    return ActiveLimit(key, rule, "of this API token", is_budget=True)


def needs_price(limits: Collection[ActiveLimit]) -> bool:
    """Return whether money is limited, so that a price must be known."""
    return any(limit.rule.unit == "micro_usd" for limit in limits)
