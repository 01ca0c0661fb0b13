"""The values of usage counters, and the reservations of running turns."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from access.limits.time_windows import TimeWindow


class CounterKey(NamedTuple):
    subject: str
    window: TimeWindow


class CounterValues(NamedTuple):
    """The values of a counter, with the total of all reservations."""

    epoch: int
    requests: int = 0
    tokens: int = 0
    micro_usd: int = 0
    turns_reserved: int = 0
    """Running turns."""
    tokens_reserved: int = 0
    micro_usd_reserved: int = 0

    def with_request(self, tokens: int, micro_usd: int) -> "CounterValues":
        """Return the values after one more request with this estimate."""
        return self._replace(
            requests=self.requests + 1,
            turns_reserved=self.turns_reserved + 1,
            tokens_reserved=self.tokens_reserved + tokens,
            micro_usd_reserved=self.micro_usd_reserved + micro_usd,
        )


UNLIMITED = 2**63 - 1


class Ceilings(NamedTuple):
    """The highest values of a counter at which another request fits its limits."""

    requests: int = UNLIMITED
    turns: int = UNLIMITED
    tokens: int = UNLIMITED
    micro_usd: int = UNLIMITED


@dataclass(frozen=True, slots=True)
class Reservation:
    """The reservation of a turn, with the epoch of each counter."""

    epochs: Mapping[CounterKey, int]
    tokens: int
    micro_usd: int
    id: uuid.UUID = field(default_factory=uuid.uuid4)


@dataclass(frozen=True, slots=True)
class Charge:
    """The usage of a turn."""

    tokens: int
    micro_usd: int
    """The cost of the part that has a price."""
    is_priced: bool
    """Whether all usage has a price."""

    def __add__(self, other: "Charge") -> "Charge":
        return Charge(
            self.tokens + other.tokens,
            self.micro_usd + other.micro_usd,
            self.is_priced and other.is_priced,
        )


NO_CHARGE = Charge(0, 0, is_priced=True)


class CounterUpdate(NamedTuple):
    """What the end of a turn changes on one counter, beside its charge."""

    key: CounterKey
    epoch: int | None
    """That of the reservation to release; None if the counter has none."""
    requests: int
    """Requests to add."""


def updates_at_end(
    keys: Sequence[CounterKey],
    reservation: Reservation | None,
    *,
    reserved_requests: int = 0,
) -> list[CounterUpdate]:
    """Return the updates of a turn's counters: the reserved ones, and `keys`.

    A reservation has counted the request already: `reserved_requests` are added to
    its counters.
    """
    epochs = {} if reservation is None else reservation.epochs
    updates = [
        CounterUpdate(key, epoch, reserved_requests) for key, epoch in epochs.items()
    ]
    return updates + [CounterUpdate(key, None, 1) for key in keys if key not in epochs]
