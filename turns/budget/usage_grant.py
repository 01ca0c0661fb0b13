"""The usage that a request may consume: reserved before the work, settled after it.

All functions run on database threads.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from django.db import transaction

from access.errors import CredentialRefused, IdentityRefused
from access.limits import limit_states, usage_limits
from access.limits.usage_counters import Charge, CounterKey, Reservation
from access.limits.usage_limits import ActiveLimit
from access.models import ApiToken, UsageCounter
from access.tokens.token_cache import TOKEN_CACHE
from access.users import identity
from access.users.caller import Caller, from_token
from core.ids import UserId


@dataclass(slots=True)
class UsageGrant:
    """The reserved usage of a request, and the counters that it is charged to."""

    counter_keys: Sequence[CounterKey]
    reservation: Reservation | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Rate-limit headers of the response: what remains."""

    @property
    def is_charged(self) -> bool:
        """Whether the counters must be updated at the end."""
        return bool(self.counter_keys) or self.reservation is not None

    def settle(self, charge: Charge) -> None:
        """Charge the usage, and release the reservation."""
        UsageCounter.objects.settle(
            self.counter_keys, self.reservation, charge, now=int(time.time())
        )

    def take_reservation(self) -> "UsageGrant":
        """Return the reservation as a grant of its own, which this one then lacks."""
        taken = UsageGrant((), self.reservation)
        self.reservation = None
        return taken

    def release(self) -> None:
        """Release the reservation of a request that does not begin."""
        if self.reservation is not None:
            UsageCounter.objects.release(self.reservation, now=int(time.time()))


def counter_keys(
    caller: Caller, user_id: UserId | None, *, now: int
) -> list[CounterKey]:
    """Return the counters to charge, with or without limits: the user's, if given, and
    those of the caller's token."""
    keys = [] if user_id is None else usage_limits.user_keys(user_id, now=now)
    if caller.token is not None:
        keys += usage_limits.token_keys(caller.token, now=now)
    return keys


def reserve(
    limits: Sequence[ActiveLimit],
    counter_keys: Sequence[CounterKey],
    caller: Caller,
    *,
    tokens: int,
    micro_usd: int,
    now: int,
) -> UsageGrant | None:
    """Reserve an estimate; None if the caller's token differs from the cached one.

    `counter_keys` are further counters to charge. Raises `LimitReached` and
    `BudgetExceeded`.
    """
    with transaction.atomic():
        used = UsageCounter.objects.reserve(
            {limit.key for limit in limits},
            caller.token,
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


def reload_caller(caller: Caller, user_id: UserId) -> Caller:
    """Return the caller with its token as stored now.

    Raises `CredentialRefused` if the token is no longer valid, and `IdentityRefused` if
    it no longer belongs to this user.
    """
    cached = caller.token
    row = None if cached is None else ApiToken.objects.filter(pk=cached.id).first()
    token = None if row is None else row.verified(datetime.now(UTC))
    if row is None or token is None:
        raise CredentialRefused
    TOKEN_CACHE.put(row.digest, token)
    fresh = from_token(token)
    # The id of a separate user does not show which principal it belongs to.
    if fresh.client_users == "separate" and fresh.principal != caller.principal:
        raise IdentityRefused
    identity.check_user(fresh, user_id)
    return fresh
