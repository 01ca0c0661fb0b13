"""Reserves the usage of requests that are not turns, on the database threads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from django.db import transaction

from access.errors import CredentialRefused, PriceUnknown
from access.limits import usage_limits
from access.limits.usage_counters import Charge, CounterKey
from access.limits.usage_limits import ActiveLimit
from access.users.caller import Caller
from config.sections import Config
from core.events import Usage
from core.ids import UserId
from core.runtime import shared_clock
from memory import memory_settings
from providers.embeddings.usage_collector import EmbeddingCall
from providers.pricing import call_costs
from providers.resilience.error_mapping import ProviderSource
from telemetry.config import TELEMETRY
from telemetry.models import ExpensePurpose
from telemetry.storage import costs
from telemetry.storage.costs import CallExpense
from turns.budget import usage_grant
from turns.budget.usage_grant import LimitedRequest, UsageGrant


@dataclass(frozen=True, slots=True)
class UsageRequest:
    config: Config
    caller: Caller
    user_id: UserId
    embedding_tokens: int = 0
    """Approximate number of tokens to embed; 0 if it embeds nothing."""
    embedding_api: ProviderSource | None = None
    """The API that embeds them; by default the one of memories."""
    needs_budget: bool = True
    """Whether a free request is refused, too, if the budget of its token is spent."""
    now: int = field(default_factory=lambda: int(shared_clock.now().timestamp()))
    """Seconds since 1970."""

    def paid_embedder(self) -> ProviderSource | None:
        """Return the API that computes its vectors; None if it calls none."""
        if not self.embedding_tokens:
            return None
        if self.embedding_api is not None:
            return self.embedding_api
        memory = memory_settings.resolve_for_users(self.config)
        api = None if memory is None else memory.embedder.api
        return None if api is None else api.source

    def limits(self) -> list[ActiveLimit]:
        """Return the limits that apply; for tokens and money only if it may use any."""
        limits = usage_limits.find_limits(
            self.config, self.caller, self.user_id, None, requested={}, now=self.now
        )
        is_paid = self.paid_embedder() is not None
        return [
            limit
            for limit in limits
            if is_paid
            or limit.rule.unit in ("requests", "turns")
            or (limit.is_budget and self.needs_budget)
        ]

    def counter_keys(self) -> list[CounterKey]:
        """Return the usage counters that its embeddings are charged to."""
        return usage_grant.counter_keys(self.caller, self.user_id, now=self.now)


def reserve_usage(request: UsageRequest) -> UsageGrant:
    """Reserve the usage of a request; raises as `request_limits.admit`."""
    grant = _try_reserve(request)
    if grant is None:
        caller = usage_grant.reload_caller(request.caller, request.user_id)
        grant = _try_reserve(replace(request, caller=caller))
    if grant is None:
        raise CredentialRefused
    return grant


def _try_reserve(request: UsageRequest) -> UsageGrant | None:
    limits, source = request.limits(), request.paid_embedder()
    limited = LimitedRequest(
        limits,
        request.caller.token,
        tokens=0 if source is None else request.embedding_tokens,
        micro_usd=_estimate_cost(request, source)
        if usage_limits.needs_price(limits)
        else 0,
        now=request.now,
    )
    return usage_grant.reserve(limited, request.counter_keys())


def _estimate_cost(request: UsageRequest, source: ProviderSource | None) -> int:
    if source is None:
        return 0
    cost = call_costs.embedding_cost(request.config, source, request.embedding_tokens)
    if cost is None:
        raise PriceUnknown(
            "this request needs an embedding, but spending is limited and the price "
            f"of {source.name}/{source.model} is unknown",
            detail="add it under prices: in coulisse.yaml",
        )
    return cost


def settle_usage(
    grant: UsageGrant, charge: Charge, config: Config, calls: Sequence[EmbeddingCall]
) -> None:
    """Charge and record embeddings, and release the reservation."""
    with transaction.atomic():
        record_embeddings(config, calls)
        if grant.is_charged:
            # Last, because other requests wait for the counters that it locks.
            grant.settle(charge)


def record_embeddings(config: Config, calls: Sequence[EmbeddingCall]) -> None:
    """Store what embeddings cost, for `spend`, in the caller's transaction."""
    for expense in _expenses(config, calls):
        costs.record_expense(expense, config.get(TELEMETRY))


def _expenses(config: Config, calls: Sequence[EmbeddingCall]) -> Iterator[CallExpense]:
    """Yield the expense of each API, with the sum of its calls."""
    by_model: dict[tuple[str, str], list[EmbeddingCall]] = {}
    for call in calls:
        by_model.setdefault((call.source.name, call.source.model), []).append(call)
    for (provider, model), its_calls in by_model.items():
        source = its_calls[0].source
        tokens = [call.tokens for call in its_calls]
        prices = [call_costs.embedding_cost(config, source, each) for each in tokens]
        known = [price for price in prices if price is not None]
        yield CallExpense(
            "embeddings",
            "",
            provider,
            model,
            len(tokens),
            Usage(sum(tokens)),
            sum(known) if len(known) == len(prices) else None,
            ExpensePurpose.EMBEDDING,
        )
