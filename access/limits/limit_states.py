"""The state of a request's limits: whether it exceeds one, and what remains."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from access.errors import BudgetExceeded, LimitReached
from access.limits import time_windows
from access.limits.gone_processes import SilentTurns
from access.limits.usage_counters import Ceilings, CounterKey, CounterValues
from access.limits.usage_limits import ActiveLimit, Unit
from core import money

CONCURRENCY_RETRY_SECONDS = 1
"""The retry delay for too many running turns: their end is unknown while their
processes live."""


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
    release_seconds: int = CONCURRENCY_RETRY_SECONDS
    """When to try again if reservations alone cause the excess."""

    @property
    def is_exceeded(self) -> bool:
        return self.used > self._ceiling

    @property
    def is_exceeded_by_reservations(self) -> bool:
        """Whether reservations alone cause the excess."""
        return self.is_exceeded and self.used - self.reserved <= self._ceiling

    @property
    def _ceiling(self) -> int:
        return _ceiling(self.limit, self.own_usage)

    @property
    def remaining(self) -> int:
        return max(0, self.limit.rule.maximum - self.used - self.own_usage)

    @property
    def reset_seconds(self) -> int:
        """The seconds until the usage is back at zero."""
        window = self.limit.key.window
        return (
            self.release_seconds
            if window.length == time_windows.EVER
            else window.end - self.now
        )


def _ceiling(limit: ActiveLimit, own_usage: int) -> int:
    """Return the highest usage at which a request of this usage fits a limit."""
    rule = limit.rule
    # Tokens are refused once the limit is reached, money before it is exceeded.
    return rule.maximum - (1 if rule.unit == "tokens" else max(1, own_usage))


def ceilings(
    limits: Collection[ActiveLimit], *, tokens: int, micro_usd: int
) -> dict[CounterKey, Ceilings]:
    """Return the values of counters at which a request fits its limits."""
    own_usage = _own_usage(tokens, micro_usd)
    found: dict[CounterKey, Ceilings] = {}
    for limit in limits:
        unit, before = limit.rule.unit, found.get(limit.key, Ceilings())
        lowest = min(getattr(before, unit), _ceiling(limit, own_usage[unit]))
        found[limit.key] = before._replace(**{unit: lowest})
    return found


def _own_usage(tokens: int, micro_usd: int) -> dict[Unit, int]:
    return {"requests": 1, "turns": 1, "tokens": tokens, "micro_usd": micro_usd}


def compute_states(
    limits: Collection[ActiveLimit],
    counters: Mapping[CounterKey, CounterValues],
    *,
    tokens: int,
    micro_usd: int,
    now: int,
    silent: Mapping[CounterKey, SilentTurns] | None = None,
) -> list[LimitState]:
    """Return the limit states of a request after its reservation.

    `silent` are the turns whose processes are probably gone.
    """
    own_usage = _own_usage(tokens, micro_usd)
    states = []
    for limit in limits:
        unit, values = limit.rule.unit, counters[limit.key]
        reserved = _reserved_amount(unit, values)
        used = getattr(values, unit, 0) + reserved - own_usage[unit]
        reserved -= 0 if unit == "requests" else own_usage[unit]
        states.append(
            LimitState(
                limit,
                used,
                own_usage[unit],
                now,
                reserved,
                _release_seconds(values, (silent or {}).get(limit.key)),
            )
        )
    return states


def _release_seconds(values: CounterValues, silent: SilentTurns | None) -> int:
    """Return the time until the running turns end, which is unknown while any lives."""
    others = values.turns_reserved - 1
    return (
        CONCURRENCY_RETRY_SECONDS
        if silent is None or silent.turns < others
        else silent.seconds
    )


def _reserved_amount(unit: Unit, values: CounterValues) -> int:
    # Requests are counted at once, and turns are reservations only.
    return 0 if unit == "requests" else int(getattr(values, f"{unit}_reserved"))


def check_states(states: Collection[LimitState]) -> None:
    """Raise `BudgetExceeded` or `LimitReached` for an exceeded limit.

    Of several, the error names the one that lasts longest.
    """
    exceeded = [state for state in states if state.is_exceeded]
    if not exceeded:
        return
    longest = max(exceeded, key=_wait_order)
    error = _budget_error(longest) if longest.limit.is_budget else _limit_error(longest)
    error.headers = rate_limit_headers(states)
    raise error


def _wait_order(state: LimitState) -> tuple[float, int]:
    window = state.limit.key.window
    if state.limit.is_budget and window.length == time_windows.EVER:
        return float("inf"), 0
    # If two end together, such as the last hour and its day, report the longer one.
    return _wait_seconds(state), -window.start


def _wait_seconds(state: LimitState) -> int:
    return (
        state.release_seconds
        if state.is_exceeded_by_reservations
        else state.reset_seconds
    )


def _limit_error(state: LimitState) -> LimitReached:
    """Return the error for a limit. Source: "Rate limiting" of the reference."""
    limit, seconds = state.limit, _wait_seconds(state)
    label = " ".join(filter(None, (limit.rule.label, limit.owner_label)))
    used = _format_amount(state.used, state)
    maximum = _format_amount(limit.rule.maximum, state)
    # Only money is refused before the limit is reached.
    problem = (
        "exceeded"
        if state.used >= limit.rule.maximum
        else "does not cover the request, which may cost "
        f"{_format_amount(state.own_usage, state)}"
    )
    reserved = ""
    if state.is_exceeded_by_reservations and limit.rule.unit != "turns":
        amount = _format_amount(state.reserved, state)
        reserved = f", of which running turns reserve {amount}"
    return LimitReached(
        f"{label} {problem}: used {used}/{maximum}{reserved}, retry after {seconds}s",
        retry_after_seconds=seconds,
    )


def _budget_error(state: LimitState) -> BudgetExceeded:
    used = _format_amount(state.used, state)
    maximum = _format_amount(state.limit.rule.maximum, state)
    cost = _format_amount(state.own_usage, state)
    window = state.limit.key.window
    if window.length == time_windows.EVER:
        return BudgetExceeded(
            "this API token's budget does not cover the request, which may cost "
            f"{cost}: {used} of {maximum} are spent or reserved for running turns; "
            "ask the operator of this server for another token"
        )
    renewal = datetime.fromtimestamp(window.end, UTC)
    return BudgetExceeded(
        "this API token's monthly budget does not cover the request, which may cost "
        f"{cost}: {used} of {maximum} are spent or reserved for running turns; "
        f"it renews on {renewal:%Y-%m-%d} (UTC)",
        retry_after_seconds=state.reset_seconds,
    )


def _format_amount(value: int, state: LimitState) -> str:
    is_money = state.limit.rule.unit == "micro_usd"
    return money.format_usd(value) if is_money else str(value)


def rate_limit_headers(states: Collection[LimitState]) -> dict[str, str]:
    """Return OpenAI's rate limit headers for requests and tokens.

    Of several limits, they describe the one with the least remaining.
    """
    headers = {}
    for unit in ("requests", "tokens"):
        tightest = min(
            (state for state in states if state.limit.rule.unit == unit),
            key=lambda state: (state.remaining, -state.reset_seconds),
            default=None,
        )
        if tightest is not None:
            reset = format_duration(tightest.reset_seconds)
            headers[f"x-ratelimit-limit-{unit}"] = str(tightest.limit.rule.maximum)
            headers[f"x-ratelimit-remaining-{unit}"] = str(tightest.remaining)
            headers[f"x-ratelimit-reset-{unit}"] = reset
    return headers


def format_duration(seconds: int) -> str:
    """Return a duration in the format of OpenAI's headers: `6m0s`, `59s`, `1h0m0s`."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
