"""The values of usage counters, and the reservations of running turns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from access.limits.time_windows import TimeWindow


class CounterKey(NamedTuple):
    subject: str
    window: TimeWindow


class CounterValues(NamedTuple):
    """The values of a counter, with the total of all reservations."""

    epoch: int
    requests: int
    tokens: int
    micro_usd: int
    turns_reserved: int
    """Running turns."""
    tokens_reserved: int
    micro_usd_reserved: int


@dataclass(frozen=True, slots=True)
class Reservation:
    """The reservation of a turn, with the epoch of each counter."""

    epochs: Mapping[CounterKey, int]
    tokens: int
    micro_usd: int


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
