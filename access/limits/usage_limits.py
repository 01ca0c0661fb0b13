"""The limits of a request: which apply, whether it exceeds one, what remains.

An active limit is a maximum for one counter. Limits come from the request's metadata
(its user's tokens), from the YAML's `limits:` and from the token's budget.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Literal

from access.errors import BudgetExceeded, LimitReached
from access.limits import dollars, time_windows
from access.limits.config import LIMITS, Limit
from access.limits.usage_counters import CounterKey, CounterValues
from access.models import ApiToken as TokenRow
from access.users import identity
from access.users.caller import Caller, VerifiedToken
from config.sections import Config
from core.ids import UserId

CountedUnit = Literal["requests", "tokens", "micro_usd", "turns"]

LIMIT_RULES: dict[str, tuple[CountedUnit, int, str]] = {
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

CONCURRENCY_RETRY_SECONDS = 1
"""The retry delay for too many running turns: their end is unknown."""


@dataclass(frozen=True, slots=True)
class LimitRule:
    """A maximum for one unit within a window."""

    counted: CountedUnit
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
    asked: Mapping[str, int],
    now: int,
) -> list[ActiveLimit]:
    """Return all limits that apply to a request.

    `asked` are the request's own limits on its user's tokens: `hour`, `day`, `month`. A
    turn of an experiment counts for the variant, and for the experiment if a limit
    names it. Limits of agents do not apply to a request without an agent.
    """
    user = user_subject(user_id)
    caps = [
        _active_limit(user, _requested_rule(period, most), now)
        for period, most in asked.items()
    ]
    for limit in config.get(LIMITS):
        agents = None if agent is None else (agent, experiment)
        subject = _limit_subject(limit, caller, user_id, agents)
        if subject is not None:
            whose = (
                f"of this {limit.per}" if limit.per != "principal" else "of this user"
            )
            caps += [
                _active_limit(subject, figure, now, whose)
                for figure in limit_rules(limit)
            ]
    if caller.token is not None and caller.token.budget != "unlimited":
        caps.append(_token_budget(caller.token, now))
    return caps


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
    subject: str, figure: LimitRule, now: int, whose: str = ""
) -> ActiveLimit:
    return ActiveLimit(
        CounterKey(subject, time_windows.window_at(figure.length, now)), figure, whose
    )


@lru_cache(maxsize=1024)
def _requested_rule(period: str, most: int) -> LimitRule:
    counted, length, words = LIMIT_RULES[f"tokens_per_{period}"]
    return LimitRule(counted, length, most, words)


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
        LimitRule(counted, length, _rule_maximum(value), words)
        for field, (counted, length, words) in LIMIT_RULES.items()
        if (value := getattr(limit, field)) is not None
    )


def _rule_maximum(value: int | Decimal) -> int:
    return int(value * dollars.MICRO_PER_USD) if isinstance(value, Decimal) else value


def _token_budget(token: VerifiedToken, now: int) -> ActiveLimit:
    is_total = token.budget == "total"
    length = time_windows.EVER if is_total else time_windows.CALENDAR_MONTH
    figure = LimitRule("micro_usd", length, token.limit_micro_usd or 0, "budget")
    key = CounterKey(token_subject(token), time_windows.window_at(length, now))
    return ActiveLimit(key, figure, "of this API token", is_budget=True)


def needs_price(caps: Collection[ActiveLimit]) -> bool:
    """Return whether money is limited, so that a price must be known."""
    return any(cap.rule.counted == "micro_usd" for cap in caps)


@dataclass(frozen=True, slots=True)
class LimitState:
    """A limit with the values of its counter, after the request was counted."""

    limit: ActiveLimit
    used: int
    """Usage without this request."""
    own_usage: int
    """The reservation of this request."""
    now: int
    reserved: int = 0
    """The part of `used` that other running turns have reserved."""

    @property
    def is_exceeded(self) -> bool:
        return self._exceeds(self.used)

    @property
    def is_exceeded_by_reservations(self) -> bool:
        """Whether reservations alone cause the excess."""
        return self.is_exceeded and not self._exceeds(self.used - self.reserved)

    def _exceeds(self, used: int) -> bool:
        most = self.limit.rule.maximum
        # Tokens are refused once the limit is reached, and money before it is exceeded.
        if self.limit.rule.counted == "tokens":
            return used >= most
        return used >= most or used + self.own_usage > most

    @property
    def remaining(self) -> int:
        return max(0, self.limit.rule.maximum - self.used - self.own_usage)

    @property
    def reset_seconds(self) -> int:
        """The seconds until the usage is back at zero."""
        window = self.limit.key.window
        return (
            CONCURRENCY_RETRY_SECONDS
            if window.length == time_windows.EVER
            else window.end - self.now
        )


def limit_states(
    caps: Collection[ActiveLimit],
    used: Mapping[CounterKey, CounterValues],
    *,
    tokens: int,
    micro_usd: int,
    now: int,
) -> list[LimitState]:
    """Return the limit states of a request after its reservation."""
    aside = {"requests": 0, "turns": 1, "tokens": tokens, "micro_usd": micro_usd}
    mine = {**aside, "requests": 1}
    return [
        LimitState(
            cap,
            _used_amount(cap.rule.counted, used[cap.key]) - mine[cap.rule.counted],
            mine[cap.rule.counted],
            now,
            _reserved_amount(cap.rule.counted, used[cap.key]) - aside[cap.rule.counted],
        )
        for cap in caps
    ]


def _used_amount(counted: CountedUnit, used: CounterValues) -> int:
    match counted:
        case "requests":
            return used.requests
        case "turns":
            return used.turns_reserved
        case "tokens":
            return used.tokens + used.tokens_reserved
        case "micro_usd":
            return used.micro_usd + used.micro_usd_reserved


def _reserved_amount(counted: CountedUnit, used: CounterValues) -> int:
    match counted:
        case "requests":
            return 0
        case "turns":
            return used.turns_reserved
        case "tokens":
            return used.tokens_reserved
        case "micro_usd":
            return used.micro_usd_reserved


def check_states(states: Collection[LimitState]) -> None:
    """Raise `BudgetExceeded` or `LimitReached` for an exceeded limit.

    Of several, the error names the one that lasts longest.
    """
    passed = [state for state in states if state.is_exceeded]
    if not passed:
        return
    worst = max(passed, key=_wait_order)
    error = _budget_error(worst) if worst.limit.is_budget else _limit_error(worst)
    error.headers = rate_limit_headers(states)
    raise error


def _wait_order(state: LimitState) -> tuple[float, int]:
    window = state.limit.key.window
    if state.limit.is_budget and window.length == time_windows.EVER:
        return float("inf"), 0
    # If two end together, such as the last hour and its day, report the longer one.
    return _wait_seconds(state), -window.start


def _wait_seconds(state: LimitState) -> int:
    """Return the retry delay; a constant for running turns, whose end is unknown."""
    return (
        CONCURRENCY_RETRY_SECONDS
        if state.is_exceeded_by_reservations
        else state.reset_seconds
    )


def _limit_error(state: LimitState) -> LimitReached:
    """Return the error for a limit. Source: "Rate limiting" of the reference."""
    cap, seconds = state.limit, _wait_seconds(state)
    words = " ".join(filter(None, (cap.rule.label, cap.owner_label)))
    # Only money is refused before the limit is reached, for a cost that would exceed
    # it.
    fault = (
        "exceeded"
        if state.used >= cap.rule.maximum
        else "does not cover the request, which may cost "
        f"{_format_amount(state.own_usage, state)}"
    )
    held = ""
    if state.is_exceeded_by_reservations and cap.rule.counted != "turns":
        aside = _format_amount(state.reserved, state)
        held = f", {aside} of it set aside for turns that are running"
    return LimitReached(
        f"{words} {fault}: used {_format_amount(state.used, state)}"
        f"/{_format_amount(cap.rule.maximum, state)}{held}, retry after {seconds}s",
        retry_after_seconds=seconds,
    )


def _budget_error(state: LimitState) -> BudgetExceeded:
    used, most, mine = (
        _format_amount(each, state)
        for each in (state.used, state.limit.rule.maximum, state.own_usage)
    )
    window = state.limit.key.window
    if window.length == time_windows.EVER:
        return BudgetExceeded(
            "this API token's budget does not cover the request, which may cost "
            f"{mine}: {used} of {most} are spent or set aside for turns that are "
            "running; ask whoever gave you the token for another"
        )
    renewed = datetime.fromtimestamp(window.end, UTC)
    return BudgetExceeded(
        "this API token's budget of the month does not cover the request, which may "
        f"cost {mine}: {used} of {most} are spent or set aside for turns that are "
        f"running; it is renewed on {renewed:%Y-%m-%d} (UTC)",
        retry_after_seconds=state.reset_seconds,
    )


def _format_amount(value: int, state: LimitState) -> str:
    if state.limit.rule.counted != "micro_usd":
        return str(value)
    return dollars.format_usd(value)


def rate_limit_headers(states: Collection[LimitState]) -> dict[str, str]:
    """Return OpenAI's rate limit headers for requests and tokens.

    Of several limits, they describe the one with the least remaining.
    """
    told = {}
    kinds: tuple[CountedUnit, ...] = ("requests", "tokens")
    for counted in kinds:
        of_kind = [state for state in states if state.limit.rule.counted == counted]
        if not of_kind:
            continue
        tightest = min(
            of_kind, key=lambda state: (state.remaining, -state.reset_seconds)
        )
        told[f"x-ratelimit-limit-{counted}"] = str(tightest.limit.rule.maximum)
        told[f"x-ratelimit-remaining-{counted}"] = str(tightest.remaining)
        told[f"x-ratelimit-reset-{counted}"] = format_duration(tightest.reset_seconds)
    return told


def format_duration(seconds: int) -> str:
    """Return a duration in the format of OpenAI's headers: `6m0s`, `59s`, `1h0m0s`."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
