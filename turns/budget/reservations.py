"""Usage of a turn: reserved before its model is called, charged when it ends.

The reservation shares the transaction that reads the context, and the charge shares the
one that stores the turn. All functions run on database threads.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from access.errors import CredentialRefused, PriceUnknown
from access.limits import limit_states, usage_counters, usage_limits
from access.limits.config import LIMITS
from access.limits.usage_counters import Charge, CounterKey, Reservation
from access.limits.usage_limits import ActiveLimit
from access.tokens import api_tokens
from access.users import identity
from access.users.caller import Caller, VerifiedToken, from_token
from agents import fallback_chain
from agents.config import AgentConfig
from agents.fallback_chain import Model
from config.sections import Config
from core.ids import UserId
from memory.recall.context import turn_context
from memory.recall.context.turn_context import Context, ContextQuery
from providers.pricing import call_costs
from turns.preparation import routing

MAX_REPLY_TOKENS = 128_000
"""Upper bound for one reply, whatever the request asks for. Without it a single request
could reserve the whole limit.
"""

DEFAULT_REPLY_TOKENS = 1_000
"""Estimated length of a reply if the request does not limit it."""


@dataclass(frozen=True, slots=True)
class TurnUsageRequest:
    """The usage that a turn asks for."""

    config: Config
    caller: Caller
    user_id: UserId
    agent: AgentConfig
    experiment: str
    """The requested experiment, if the agent is one of its variants; otherwise ""."""
    token_limits: Mapping[str, int]
    """The request's own limits on its user's tokens, by period."""
    count_prompt: Callable[[Context], int]
    """Returns the estimated tokens of the prompt with this context."""
    parameters: Mapping[str, Any]
    """Parameters of the request, under OpenAI's names; each model adds its own."""
    now: int
    """Seconds since 1970."""
    is_incognito: bool = False
    """Whether no trace of the user is stored, except where a limit needs one."""
    is_exempt: bool = False
    """Whether it is a shadow run, which counts towards no limit."""

    def limits(self) -> list[ActiveLimit]:
        """Return the limits that apply."""
        if self.is_exempt:
            return []
        return usage_limits.find_limits(
            self.config,
            self.caller,
            self.user_id,
            self.agent.name,
            experiment=self.experiment,
            requested=self.token_limits,
            now=self.now,
        )

    @property
    def is_limited(self) -> bool:
        """Whether the database may be needed before the turn begins."""
        return (
            bool(self.token_limits)
            or self.caller.token is not None
            or bool(self.config.get(LIMITS))
        )

    def counter_keys(self) -> list[CounterKey]:
        """Return the counters that the turn is charged to, with or without limits."""
        keys: list[CounterKey] = []
        if self.is_exempt:
            return keys
        if not self.is_incognito:
            keys += usage_limits.user_keys(self.user_id, now=self.now)
        if self.caller.token is not None:
            keys += usage_limits.token_keys(self.caller.token, now=self.now)
        return keys


@dataclass(frozen=True, slots=True)
class UsageGrant:
    """The reserved usage of a turn, and the counters that it is charged to."""

    counter_keys: Sequence[CounterKey]
    reservation: Reservation | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Rate-limit headers of the response: what remains."""

    @property
    def is_charged(self) -> bool:
        """Whether the counters must be updated when the turn ends."""
        return bool(self.counter_keys) or self.reservation is not None


def estimate_reply_tokens(parameters: Mapping[str, Any]) -> int:
    """Return the estimated length of the reply in tokens, from the parameters."""
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
    grant = _try_reserve(usage, context)
    if grant is None:
        grant = _try_reserve(_with_current_token(usage), context)
    if grant is None:
        raise CredentialRefused
    return context, grant


def check_limits(usage: TurnUsageRequest) -> None:
    """Raise the errors of `reserve` if the limits allow no turn; reserve nothing."""
    with transaction.atomic():
        _try_reserve(replace(usage, count_prompt=lambda _: 0), Context(()))
        transaction.set_rollback(True)


def _try_reserve(usage: TurnUsageRequest, context: Context) -> UsageGrant | None:
    """Reserve a turn's usage; None if its token differs from the cached one."""
    limits, counter_keys, token = (
        usage.limits(),
        usage.counter_keys(),
        usage.caller.token,
    )
    if not limits:
        is_valid = token is None or usage_counters.is_valid(token, now=usage.now)
        return UsageGrant(counter_keys) if is_valid else None
    models = fallback_chain.models_for(usage.config, usage.agent)
    prompt_tokens = usage.count_prompt(context)
    # Any model of the fallback chain may answer, so the largest cost counts.
    reply_tokens = max(_model_reply_tokens(usage, model) for model in models)
    micro_usd = 0
    if usage_limits.needs_price(limits):
        micro_usd = max(_estimate_cost(usage, prompt_tokens, model) for model in models)
    return reserve(
        limits,
        counter_keys,
        token,
        tokens=prompt_tokens + reply_tokens,
        micro_usd=micro_usd,
        now=usage.now,
    )


def reserve(
    limits: Sequence[ActiveLimit],
    counter_keys: Sequence[CounterKey],
    token: VerifiedToken | None,
    *,
    tokens: int,
    micro_usd: int,
    now: int,
) -> UsageGrant | None:
    """Reserve an estimate; None if the token differs from the cached one.

    `counter_keys` are further counters to charge. Raises `LimitReached` and
    `BudgetExceeded`.
    """
    with transaction.atomic():
        used = usage_counters.reserve(
            {limit.key for limit in limits},
            token,
            tokens=tokens,
            micro_usd=micro_usd,
            now=now,
        )
        if not used:
            return None
        states = limit_states.compute_states(
            limits, used, tokens=tokens, micro_usd=micro_usd, now=now
        )
        limit_states.check_states(states)
    epochs = {key: each.epoch for key, each in used.items()}
    reservation = Reservation(epochs, tokens, micro_usd)
    return UsageGrant(
        counter_keys, reservation, limit_states.rate_limit_headers(states)
    )


def _model_reply_tokens(usage: TurnUsageRequest, model: Model) -> int:
    return estimate_reply_tokens(model.parameters(usage.parameters))


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
            f"agent '{usage.agent.name}' cannot be called, because spending is limited "
            f"and the price of {model} is unknown",
            detail="add it under prices: in coulisse.yaml",
        )
    return cost


def _with_current_token(usage: TurnUsageRequest) -> TurnUsageRequest:
    """Return the request with its token as stored now; raises as `reload_caller`."""
    caller = reload_caller(usage.config, usage.caller, usage.user_id)
    # Earlier checks used the cached token.
    name = usage.experiment or usage.agent.name
    routing.check_name(usage.config, name, allowed=caller.agents)
    return replace(usage, caller=caller)


def reload_caller(config: Config, caller: Caller, user_id: UserId) -> Caller:
    """Return the caller with its token as stored now.

    Raises `CredentialRefused` if the token is no longer valid, and `IdentityRefused` if
    it no longer belongs to this user.
    """
    cached = caller.token
    token = None if cached is None else api_tokens.reload(cached, datetime.now(UTC))
    if token is None:
        raise CredentialRefused
    caller = from_token(token)
    identity.check_user(caller, user_id)
    return caller


def settle(grant: UsageGrant, charge: Charge) -> None:
    """Charge a turn that ended and release its reservation."""
    usage_counters.settle(
        grant.counter_keys, grant.reservation, charge, now=int(time.time())
    )


def release(reservation: Reservation) -> None:
    """Release the reservation of a turn that does not begin."""
    usage_counters.release(reservation, now=int(time.time()))
