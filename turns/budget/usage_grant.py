"""The usage that a request may consume: reserved before the work, settled after it.

All functions run on database threads.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeVar

from django.db import transaction

from access.errors import (
    BudgetExceeded,
    CredentialRefused,
    IdentityRefused,
    LimitReached,
)
from access.limits import gone_processes, limit_states, usage_limits
from access.limits.gone_processes import SilentTurns
from access.limits.limit_states import LimitState
from access.limits.usage_counters import (
    Charge,
    CounterKey,
    CounterValues,
    Reservation,
)
from access.limits.usage_limits import ActiveLimit
from access.models import ApiToken, UsageCounter, UsageReservation, counter_sql
from access.tokens.token_cache import TOKEN_CACHE
from access.users import identity
from access.users.caller import Caller, VerifiedToken, from_token
from core.ids import UserId
from core.runtime import shared_clock

T = TypeVar("T")

Counters = Mapping[CounterKey, CounterValues]


def _now() -> int:
    return int(shared_clock.now().timestamp())


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
        UsageReservation.objects.settle(
            self.counter_keys,
            self.reservation,
            charge,
            now=_now(),
        )

    def take_reservation(self) -> "UsageGrant":
        """Return the reservation as a grant of its own, which this one then lacks."""
        taken = UsageGrant((), self.reservation)
        self.reservation = None
        return taken

    def release(self) -> None:
        """Release the reservation of a request that does not begin."""
        if self.reservation is not None:
            UsageReservation.objects.release(self.reservation, now=_now())


@dataclass(frozen=True, slots=True)
class LimitedRequest:
    """A request with the limits that apply to it, and its estimated usage."""

    limits: Sequence[ActiveLimit]
    token: VerifiedToken | None
    tokens: int
    micro_usd: int
    now: int
    id: uuid.UUID = field(default_factory=uuid.uuid4)
    silent: Mapping[CounterKey, SilentTurns] = field(default_factory=dict)

    def reserve(self) -> Counters | None:
        """Reserve; None if the token differs from the cached one.

        Raises `LimitReached` and `BudgetExceeded`.
        """
        if not counter_sql.has_single_statements():
            return self._lock_and_reserve()
        if used := self._reserve_if_free():
            return used
        # Refused requests, which may be many, must not lock the counters either.
        self.check()
        UsageCounter.objects.create_missing(self._keys, now=self.now)
        return self._reserve_if_free() or self._lock_and_reserve()

    def _reserve_if_free(self) -> Counters:
        maxima = limit_states.ceilings(
            self.limits, tokens=self.tokens, micro_usd=self.micro_usd
        )
        return UsageReservation.objects.reserve_if_free(
            self.id,
            maxima,
            self.token,
            tokens=self.tokens,
            micro_usd=self.micro_usd,
            now=self.now,
        )

    @property
    def _keys(self) -> set[CounterKey]:
        return {limit.key for limit in self.limits}

    def check(self) -> None:
        """Raise the errors of `reserve` if the limits refuse the request now."""
        if self.token is None or ApiToken.objects.is_current(
            self.token, datetime.fromtimestamp(self.now, UTC)
        ):
            values = UsageCounter.objects.read(self._keys, now=self.now)
            used = {
                key: each.with_request(self.tokens, self.micro_usd)
                for key, each in values.items()
            }
            limit_states.check_states(self.states(used))

    def _lock_and_reserve(self) -> Counters | None:
        with transaction.atomic():
            used = UsageCounter.objects.reserve(
                self._keys,
                self.token,
                tokens=self.tokens,
                micro_usd=self.micro_usd,
                now=self.now,
            )
            if not used:
                return None
            limit_states.check_states(self.states(used))
            UsageReservation.objects.record(self.reservation(used))
        return used

    def reservation(self, used: Counters) -> Reservation:
        epochs = {key: each.epoch for key, each in used.items()}
        return Reservation(epochs, self.tokens, self.micro_usd, self.id)

    def states(self, used: Counters) -> list[LimitState]:
        return limit_states.compute_states(
            self.limits,
            used,
            tokens=self.tokens,
            micro_usd=self.micro_usd,
            now=self.now,
            silent=self.silent,
        )


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
    request: LimitedRequest, counter_keys: Sequence[CounterKey]
) -> UsageGrant | None:
    """Reserve an estimate; None if the caller's token differs from the cached one.

    `counter_keys` are further counters to charge. Raises `LimitReached` and
    `BudgetExceeded`.
    """
    used = _try_twice(request, LimitedRequest.reserve)
    if used is None:
        return None
    headers = limit_states.rate_limit_headers(request.states(used))
    return UsageGrant(counter_keys, request.reservation(used), headers)


def check(request: LimitedRequest) -> None:
    """Raise the errors of `reserve` if the limits refuse the request now."""
    _try_twice(request, LimitedRequest.check)


def _try_twice(request: LimitedRequest, call: Callable[[LimitedRequest], T]) -> T:
    """Call it again if it is refused and processes that hold reservations are gone."""
    try:
        return call(request)
    except (LimitReached, BudgetExceeded):
        has_ended, silent = gone_processes.end_reservations()
        if not has_ended and not silent:
            raise
        return call(replace(request, silent=silent))


def reload_caller(caller: Caller, user_id: UserId) -> Caller:
    """Return the caller with its token as stored now.

    Raises `CredentialRefused` if the token is no longer valid, and `IdentityRefused` if
    it no longer belongs to this user.
    """
    cached = caller.token
    row = None if cached is None else ApiToken.objects.filter(pk=cached.id).first()
    token = None if row is None else row.verified(shared_clock.now())
    if row is None or token is None:
        raise CredentialRefused
    TOKEN_CACHE.put(row.digest, token)
    fresh = from_token(token)
    # The id of a separate user does not show which principal it belongs to.
    if fresh.client_users == "separate" and fresh.principal != caller.principal:
        raise IdentityRefused
    identity.check_user(fresh, user_id)
    return fresh
