"""What a turn may use: set aside before its model is called, charged when it ends.

In the trip that reads the past, and in the one that writes the turn down; DESIGN's
tenth decision. All of it runs on the database's threads.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from access import identity, limits, meters, tokens
from access.caller import Caller, by_token
from access.errors import CredentialRefused, PriceUnknown
from access.limits import Cap
from access.limits_config import LIMITS
from access.meters import Charge, Key, Reservation
from agents import lineup
from agents.config import AgentConfig
from agents.lineup import Model
from config.sections import Config
from core.ids import UserId
from core.tokens import estimate
from memory import gather
from memory.gather import Gathered, Wanted
from providers import prices
from turns import context

MOST_REPLY_TOKENS = 128_000
"""What no model says more than in one reply, whatever it is asked for: else a single
request could set aside all that a limit leaves to everyone."""

REPLY_TOKENS = 1_000
"""What a reply is taken to have where the request does not limit it."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request asks to use."""

    config: Config
    caller: Caller
    user_id: UserId
    agent: AgentConfig
    experiment: str
    """What was asked for, where the agent is a variant of it; else ""."""
    asked: Mapping[str, int]
    """The request's own limits on its user's tokens, by period."""
    prompt_tokens: int
    """About how many it sends, without what is read of the past."""
    parameters: Mapping[str, Any]
    """The request's, by OpenAI's names; each model has its own besides."""
    now: int
    """Seconds since 1970."""
    is_incognito: bool = False
    """Whether it leaves no trace of its user, but where a limit needs one."""
    is_exempt: bool = False
    """Whether it is a trial of ours, which counts towards no limit."""

    def caps(self) -> list[Cap]:
        """Return what holds for it."""
        if self.is_exempt:
            return []
        return limits.of(
            self.config,
            self.caller,
            self.user_id,
            self.agent.name,
            experiment=self.experiment,
            asked=self.asked,
            now=self.now,
        )

    @property
    def is_limited(self) -> bool:
        """Whether the database may have to be asked before it begins."""
        return (
            bool(self.asked)
            or self.caller.token is not None
            or bool(self.config.get(LIMITS))
        )

    def charged(self) -> list[Key]:
        """Return the meters it is charged to, whatever holds."""
        keys: list[Key] = []
        if self.is_exempt:
            return keys
        if not self.is_incognito:
            keys += limits.user_keys(self.user_id, now=self.now)
        if self.caller.token is not None:
            keys += limits.token_keys(self.caller.token, now=self.now)
        return keys


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a turn was granted, and where it is charged."""

    charged: Sequence[Key]
    reservation: Reservation | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """What the client is told of what is left."""

    @property
    def is_charged(self) -> bool:
        """Whether anything need be written down when the turn ends."""
        return bool(self.charged) or self.reservation is not None


def reply_tokens(parameters: Mapping[str, Any]) -> int:
    """Return how long a reply is taken to be, in tokens, from its parameters."""
    most = parameters.get("max_completion_tokens", parameters.get("max_tokens"))
    return REPLY_TOKENS if most is None else min(int(most), MOST_REPLY_TOKENS)


def grant(wanted: Wanted, wish: Wish) -> tuple[Gathered, Allowance]:
    """Read what a turn wants of the past and set aside what it may use.

    Raises `LimitReached`, `BudgetSpent` and `PriceUnknown`; `CredentialRefused` for a
    token that is no longer valid, `AgentRefused` and `IdentityRefused` for one that has
    changed and no longer is for this turn's agent or user.
    """
    past = gather.gather(wish.user_id, wanted) if wanted.is_anything else Gathered(())
    read = context.count_tokens(past.messages) + estimate(past.block)
    wish = replace(wish, prompt_tokens=wish.prompt_tokens + read)
    allowance = _reserved(wish)
    if allowance is None:
        allowance = _reserved(_renewed(wish))
    if allowance is None:
        raise CredentialRefused
    return past, allowance


def _reserved(wish: Wish) -> Allowance | None:
    """Set aside what a turn may use; None where its token is not as remembered."""
    caps, charged, token = wish.caps(), wish.charged(), wish.caller.token
    if not caps:
        is_valid = token is None or meters.is_valid(token, now=wish.now)
        return Allowance(charged) if is_valid else None
    models = lineup.of(wish.config, wish.agent)
    # Whichever of them answers.
    longest = max(_reply_tokens(wish, model) for model in models)
    guess = wish.prompt_tokens + longest
    micro_usd = 0
    if limits.needs_price(caps):
        micro_usd = max(_priced(wish, model) for model in models)
    with transaction.atomic():
        used = meters.reserve(
            {cap.key for cap in caps},
            token,
            tokens=guess,
            micro_usd=micro_usd,
            now=wish.now,
        )
        if not used:
            return None
        states = limits.states(
            caps, used, tokens=guess, micro_usd=micro_usd, now=wish.now
        )
        limits.check(states)
    epochs = {key: each.epoch for key, each in used.items()}
    return Allowance(
        charged,
        Reservation(epochs, guess, micro_usd),
        limits.headers(states),
    )


def _reply_tokens(wish: Wish, model: Model) -> int:
    return reply_tokens(model.parameters(wish.parameters))


def _priced(wish: Wish, model: Model) -> int:
    """Return the most a call of this model may cost."""
    known = prices.estimate(
        wish.config,
        model.provider_name,
        model.name,
        wish.prompt_tokens,
        _reply_tokens(wish, model),
    )
    if known is None:
        raise PriceUnknown(
            f"agent '{wish.agent.name}' cannot be called where spending is limited: "
            f"the price of {model} is not known; set it under prices: in coulisse.yaml"
        )
    return known


def _renewed(wish: Wish) -> Wish:
    """Return the wish of a caller whose token is as it is now, or raise as `grant`."""
    known = wish.caller.token
    token = None if known is None else tokens.again(known, datetime.now(UTC))
    if token is None:
        raise CredentialRefused
    caller = by_token(token)
    # The turn came this far by what was remembered.
    identity.check_agent(caller, wish.experiment or wish.agent.name)
    identity.resolve(wish.config, caller, str(wish.user_id))
    return replace(wish, caller=caller)


def settle(allowance: Allowance, charge: Charge) -> None:
    """Charge a turn that ended and give back what was set aside for it."""
    meters.settle(
        allowance.charged, allowance.reservation, charge, now=int(time.time())
    )


def release(reservation: Reservation) -> None:
    """Give back what was set aside for a turn that does not begin."""
    meters.release(reservation, now=int(time.time()))
