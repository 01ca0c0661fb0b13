"""Usage of a turn: reserved before its model is called.

The reservation shares the transaction that reads the context, and the charge shares the
one that stores the turn. All functions run on database threads.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from access.errors import CredentialRefused, PriceUnknown
from access.limits import usage_limits
from access.limits.config import LIMITS
from access.limits.usage_counters import CounterKey
from access.limits.usage_limits import ActiveLimit
from access.models import ApiToken
from agents import fallback_chain
from agents.fallback_chain import Model
from config.sections import Config
from core.ids import UserId
from memory.recall.context import turn_context
from memory.recall.context.turn_context import Context, ContextQuery
from providers.pricing import call_costs
from turns.budget import usage_grant
from turns.budget.usage_grant import LimitedRequest, UsageGrant
from turns.preparation import routing
from turns.preparation.routing import Route
from turns.turn import TurnRequest

MAX_REPLY_TOKENS = 128_000
"""Upper bound for one reply, whatever the request asks for. Without it a single request
could reserve the whole limit.
"""

DEFAULT_REPLY_TOKENS = 1_000
"""Estimated length of a reply if the request does not limit it."""


@dataclass(frozen=True, slots=True)
class TurnUsageRequest:
    config: Config
    request: TurnRequest
    route: Route
    count_prompt: Callable[[Context], int]
    """Returns the estimated tokens of the prompt with this context."""
    now: int
    """Seconds since 1970."""

    @property
    def user_id(self) -> UserId:
        return self.request.user_id

    @property
    def is_exempt(self) -> bool:
        """Whether a synthetic user asks, who counts towards no limit."""
        return self.request.origin == "smoke"

    def limits(self) -> list[ActiveLimit]:
        if self.is_exempt:
            return []
        return usage_limits.find_limits(
            self.config,
            self.request.caller,
            self.user_id,
            self.route.agent.name,
            experiment=self.route.experiment,
            requested=self.request.options.token_limits,
            now=self.now,
        )

    @property
    def is_limited(self) -> bool:
        """Whether the database may be needed before the turn begins."""
        return (
            bool(self.request.options.token_limits)
            or self.request.caller.token is not None
            or bool(self.config.get(LIMITS))
        )

    def counter_keys(self) -> list[CounterKey]:
        """Return the counters that the turn is charged to, with or without limits.

        An incognito turn leaves no trace of the user, except where a limit needs one.
        """
        if self.is_exempt:
            return []
        user_id = None if self.request.options.is_incognito else self.user_id
        return usage_grant.counter_keys(self.request.caller, user_id, now=self.now)


def estimate_reply_tokens(parameters: Mapping[str, Any]) -> int:
    limit = parameters.get("max_completion_tokens", parameters.get("max_tokens"))
    return DEFAULT_REPLY_TOKENS if limit is None else min(int(limit), MAX_REPLY_TOKENS)


def load_context_and_reserve(
    query: ContextQuery, usage: TurnUsageRequest
) -> tuple[Context, UsageGrant]:
    """Read a turn's context and reserve its usage.

    Raises `LimitReached`, `BudgetExceeded` and `PriceUnknown`; `CredentialRefused` for
    a token that is no longer valid; `AgentUnknown` and `IdentityRefused` if the token
    has changed and no longer allows this agent or user.
    """
    context = (
        turn_context.load_context(usage.user_id, query)
        if query.needs_reading
        else Context(())
    )
    before = time.perf_counter()
    grant = _try_reserve(usage, context) or _try_reserve(
        _with_current_token(usage), context
    )
    query.diagnostics.limits_seconds = time.perf_counter() - before
    if grant is None:
        raise CredentialRefused
    return context, grant


def check_limits(usage: TurnUsageRequest) -> None:
    """Raise the errors of `usage_grant.reserve` if the limits allow no turn; reserve
    nothing."""
    if limits := usage.limits():
        without_prompt = replace(usage, count_prompt=lambda _: 0)
        usage_grant.check(_limited_request(without_prompt, limits, Context(())))


def _try_reserve(usage: TurnUsageRequest, context: Context) -> UsageGrant | None:
    """Reserve a turn's usage; None if its token differs from the cached one."""
    limits, caller = usage.limits(), usage.request.caller
    counter_keys = usage.counter_keys()
    if limits:
        request = _limited_request(usage, limits, context)
        return usage_grant.reserve(request, counter_keys)
    is_valid = caller.token is None or ApiToken.objects.is_current(
        caller.token, datetime.fromtimestamp(usage.now, UTC)
    )
    return UsageGrant(counter_keys) if is_valid else None


def _limited_request(
    usage: TurnUsageRequest, limits: Sequence[ActiveLimit], context: Context
) -> LimitedRequest:
    models = fallback_chain.models_for(usage.config, usage.route.agent)
    prompt_tokens = usage.count_prompt(context)
    # Any model of the fallback chain may answer, so the largest cost counts.
    reply_tokens = max(_model_reply_tokens(usage, model) for model in models)
    micro_usd = 0
    if usage_limits.needs_price(limits):
        micro_usd = max(_estimate_cost(usage, prompt_tokens, model) for model in models)
    return LimitedRequest(
        limits,
        usage.request.caller.token,
        tokens=prompt_tokens + reply_tokens,
        micro_usd=micro_usd,
        now=usage.now,
    )


def _model_reply_tokens(usage: TurnUsageRequest, model: Model) -> int:
    return estimate_reply_tokens(model.parameters(usage.request.parameters))


def _estimate_cost(usage: TurnUsageRequest, prompt_tokens: int, model: Model) -> int:
    """Return the maximum cost of a call of this model."""
    cost = call_costs.estimate_cost(
        usage.config,
        model.provider_name,
        model.name,
        prompt_tokens,
        _model_reply_tokens(usage, model),
    )
    if cost is None:
        raise PriceUnknown(
            f"agent '{usage.route.agent.name}' cannot be called, because spending is "
            f"limited and the price of {model} is unknown",
            detail="add it under prices: in coulisse.yaml",
        )
    return cost


def _with_current_token(usage: TurnUsageRequest) -> TurnUsageRequest:
    """Return the request with its token as stored now; raises as `reload_caller`."""
    caller = usage_grant.reload_caller(usage.request.caller, usage.user_id)
    # Earlier checks used the cached token.
    name = usage.route.experiment or usage.route.agent.name
    routing.check_name(usage.config, name, allowed=caller.agents)
    return replace(usage, request=replace(usage.request, caller=caller))
