"""When people write: by day and before the weekend, hardly at night."""

import random
from bisect import bisect
from datetime import datetime, timedelta
from itertools import accumulate

HOURS = (
    *(2, 1, 1, 0.5, 0.5, 1, 3, 8, 16, 24, 28, 27),
    *(22, 20, 24, 26, 28, 32, 30, 24, 18, 14, 9, 5),
)
"""How busy each hour is, in UTC."""
WEEKDAYS = (1.0, 1.0, 1.05, 1.15, 1.2, 0.75, 0.6)
GROWTH = 0.6
"""How much more the last day has than the first."""
HOUR = timedelta(hours=1)
TROUBLE = ((9, 2, 0.4), (0.25, 1, 0.45))
"""A provider's bad hours: how many days ago, how many hours, the share that fails."""
USUAL_TROUBLE = 0.012


class TrafficPattern:
    """The month until now."""

    def __init__(self, now: datetime, days: int) -> None:
        self.now = now
        self.days = days
        self.start = now - timedelta(days=days)
        hours = [self.start + number * HOUR for number in range(days * 24)]
        weights = [
            HOURS[at.hour] * WEEKDAYS[at.weekday()] * (1 + GROWTH * number / len(hours))
            for number, at in enumerate(hours)
        ]
        self._hours = hours
        self._ends = [*accumulate(weights)]

    def moment(self, chance: random.Random) -> datetime:
        """Return when a conversation may have begun."""
        place = bisect(self._ends, chance.random() * self._ends[-1])
        return self._hours[min(place, len(self._hours) - 1)] + chance.random() * HOUR

    def trouble(self, at: datetime) -> float:
        """Return the share of turns that failed then."""
        for days_ago, hours, share in TROUBLE:
            begin = self.now - timedelta(days=days_ago)
            if begin <= at < begin + hours * HOUR:
                return share
        return USUAL_TROUBLE
