"""Usage of a request that is not a turn, and its reservation.

The functions in `reservations` make it, as they do for turns, on the database threads.
"""

import time
from dataclasses import dataclass, field, replace

from access.errors import CredentialRefused, PriceUnknown
from access.limits import usage_limits
from access.limits.usage_counters import CounterKey
from access.limits.usage_limits import ActiveLimit
from access.users.caller import Caller
from config.sections import Config
from core.ids import UserId
from memory import memory_settings
from providers.pricing import call_costs
from providers.resilience.error_mapping import ProviderSource
from turns.budget import reservations
from turns.budget.reservations import UsageGrant


@dataclass(frozen=True, slots=True)
class UsageRequest:
    """The usage that a request asks for."""

    config: Config
    caller: Caller
    user_id: UserId
    embedding_tokens: int = 0
    """Approximate number of tokens to embed; 0 if it embeds nothing."""
    needs_budget: bool = True
    """Whether a token with a spent budget is refused even if the request is free."""
    now: int = field(default_factory=lambda: int(time.time()))
    """Seconds since 1970."""

    def paid_embedder(self) -> ProviderSource | None:
        """Return the API that computes its vectors; None if it calls none."""
        if not self.embedding_tokens:
            return None
        users = memory_settings.resolve_for_users(self.config)
        service = None if users is None else users.embedder.api
        return None if service is None else service.source

    def limits(self) -> list[ActiveLimit]:
        """Return the limits that apply: tokens and money only if it may use any."""
        holding = usage_limits.find_limits(
            self.config, self.caller, self.user_id, None, asked={}, now=self.now
        )
        is_paid = self.paid_embedder() is not None
        return [
            cap
            for cap in holding
            if is_paid
            or cap.rule.counted in ("requests", "turns")
            or (cap.is_budget and self.needs_budget)
        ]

    def counter_keys(self) -> list[CounterKey]:
        """Return the usage counters that its embeddings are charged to."""
        keys = usage_limits.user_keys(self.user_id, now=self.now)
        if self.caller.token is not None:
            keys += usage_limits.token_keys(self.caller.token, now=self.now)
        return keys


def reserve_usage(request: UsageRequest) -> UsageGrant:
    """Reserve the usage of a request.

    Raises `LimitReached`, `BudgetExceeded`, `PriceUnknown` and `CredentialRefused`.
    """
    allowance = _try_reserve(request)
    if allowance is None:
        caller = reservations.reload_caller(
            request.config, request.caller, request.user_id
        )
        allowance = _try_reserve(replace(request, caller=caller))
    if allowance is None:
        raise CredentialRefused
    return allowance


def _try_reserve(request: UsageRequest) -> UsageGrant | None:
    caps, source = request.limits(), request.paid_embedder()
    return reservations.reserve(
        caps,
        request.counter_keys(),
        request.caller.token,
        tokens=0 if source is None else request.embedding_tokens,
        micro_usd=_estimate_cost(request, source)
        if usage_limits.needs_price(caps)
        else 0,
        now=request.now,
    )


def _estimate_cost(request: UsageRequest, source: ProviderSource | None) -> int:
    if source is None:
        return 0
    known = call_costs.embedding_cost(request.config, source, request.embedding_tokens)
    if known is None:
        raise PriceUnknown(
            "this request needs an embedding, but spending is limited and the price "
            f"of {source.name}/{source.model} is unknown",
            detail="add it under prices: in coulisse.yaml",
        )
    return known
