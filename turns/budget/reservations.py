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
from access.limits import usage_counters, usage_limits
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
    """The experiment that was requested, if the agent is one of its variants; else "".
    """
    token_limits: Mapping[str, int]
    """The request's own limits on its user's tokens, by period."""
    count_prompt: Callable[[Context], int]
    """Returns about how many tokens the turn sends with this context."""
    parameters: Mapping[str, Any]
    """The request's, by OpenAI's names; each model adds its own."""
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
            asked=self.token_limits,
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
        """Return the usage counters that the turn is charged to, with or without
        limits.
        """
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
    """What a turn may use, and the counters that it is charged to."""

    counter_keys: Sequence[CounterKey]
    reservation: Reservation | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Rate-limit headers of the response: what remains."""

    @property
    def is_charged(self) -> bool:
        """Whether the end of the turn has to be written to the counters."""
        return bool(self.counter_keys) or self.reservation is not None


def estimate_reply_tokens(parameters: Mapping[str, Any]) -> int:
    """Return the estimated length of the reply in tokens, from the parameters."""
    most = parameters.get("max_completion_tokens", parameters.get("max_tokens"))
    return DEFAULT_REPLY_TOKENS if most is None else min(int(most), MAX_REPLY_TOKENS)


def load_context_and_reserve(
    wanted: ContextQuery, wish: TurnUsageRequest
) -> tuple[Context, UsageGrant]:
    """Read a turn's context and reserve its usage.

    Raises `LimitReached`, `BudgetExceeded` and `PriceUnknown`; `CredentialRefused` for
    a token that is no longer valid; `AgentUnknown` and `IdentityRefused` if the token
    has changed and no longer allows this agent or user.
    """
    past = (
        turn_context.load_context(wish.user_id, wanted)
        if wanted.needs_reading
        else Context(())
    )
    allowance = _try_reserve(wish, past)
    if allowance is None:
        allowance = _try_reserve(_with_current_token(wish), past)
    if allowance is None:
        raise CredentialRefused
    return past, allowance


def check_limits(wish: TurnUsageRequest) -> None:
    """Raise the errors of `reserve` if the limits allow no turn; reserve nothing."""
    with transaction.atomic():
        _try_reserve(replace(wish, count_prompt=lambda _: 0), Context(()))
        transaction.set_rollback(True)


def _try_reserve(wish: TurnUsageRequest, past: Context) -> UsageGrant | None:
    """Reserve a turn's usage; None if its token differs from the cached one."""
    caps, charged, token = wish.limits(), wish.counter_keys(), wish.caller.token
    if not caps:
        is_valid = token is None or usage_counters.is_valid(token, now=wish.now)
        return UsageGrant(charged) if is_valid else None
    models = fallback_chain.models_for(wish.config, wish.agent)
    prompt_tokens = wish.count_prompt(past)
    # Any model of the fallback chain may answer, so the largest cost counts.
    longest = max(_model_reply_tokens(wish, model) for model in models)
    guess = prompt_tokens + longest
    micro_usd = 0
    if usage_limits.needs_price(caps):
        micro_usd = max(_estimate_cost(wish, prompt_tokens, model) for model in models)
    return reserve(
        caps, charged, token, tokens=guess, micro_usd=micro_usd, now=wish.now
    )


def reserve(
    caps: Sequence[ActiveLimit],
    charged: Sequence[CounterKey],
    token: VerifiedToken | None,
    *,
    tokens: int,
    micro_usd: int,
    now: int,
) -> UsageGrant | None:
    """Reserve an estimate; None if the token differs from the cached one.

    `charged` are further counters to charge. Raises `LimitReached` and
    `BudgetExceeded`.
    """
    with transaction.atomic():
        used = usage_counters.reserve(
            {cap.key for cap in caps},
            token,
            tokens=tokens,
            micro_usd=micro_usd,
            now=now,
        )
        if not used:
            return None
        states = usage_limits.limit_states(
            caps, used, tokens=tokens, micro_usd=micro_usd, now=now
        )
        usage_limits.check_states(states)
    epochs = {key: each.epoch for key, each in used.items()}
    reservation = Reservation(epochs, tokens, micro_usd)
    return UsageGrant(charged, reservation, usage_limits.rate_limit_headers(states))


def _model_reply_tokens(wish: TurnUsageRequest, model: Model) -> int:
    return estimate_reply_tokens(model.parameters(wish.parameters))


def _estimate_cost(wish: TurnUsageRequest, prompt_tokens: int, model: Model) -> int:
    """Return the maximum cost of a call of this model."""
    known = call_costs.estimate_cost(
        wish.config,
        model.provider_name,
        model.name,
        prompt_tokens,
        _model_reply_tokens(wish, model),
    )
    if known is None:
        raise PriceUnknown(
            f"agent '{wish.agent.name}' cannot be called, because spending is limited "
            f"and the price of {model} is unknown",
            detail="add it under prices: in coulisse.yaml",
        )
    return known


def _with_current_token(wish: TurnUsageRequest) -> TurnUsageRequest:
    """Return the request with its token as stored now; raises as `reload_caller`."""
    caller = reload_caller(wish.config, wish.caller, wish.user_id)
    # Earlier checks used the cached token.
    name = wish.experiment or wish.agent.name
    routing.check_name(wish.config, name, offered=caller.agents)
    return replace(wish, caller=caller)


def reload_caller(config: Config, caller: Caller, user_id: UserId) -> Caller:
    """Return the caller with its token as stored now.

    Raises `CredentialRefused` if the token is no longer valid, and `IdentityRefused` if
    it no longer belongs to this user.
    """
    known = caller.token
    token = None if known is None else api_tokens.reload(known, datetime.now(UTC))
    if token is None:
        raise CredentialRefused
    caller = from_token(token)
    identity.check_user(caller, user_id)
    return caller


def settle(allowance: UsageGrant, charge: Charge) -> None:
    """Charge a turn that ended and release its reservation."""
    usage_counters.settle(
        allowance.counter_keys, allowance.reservation, charge, now=int(time.time())
    )


def release(reservation: Reservation) -> None:
    """Release the reservation of a turn that does not begin."""
    usage_counters.release(reservation, now=int(time.time()))
