"""When users write: mostly by day and before the weekend."""

import random
from bisect import bisect
from datetime import datetime, timedelta
from itertools import accumulate

MORNING = (2, 1, 1, 0.5, 0.5, 1, 3, 8, 16, 24, 28, 27)
AFTERNOON = (22, 20, 24, 26, 28, 32, 30, 24, 18, 14, 9, 5)
HOURS = MORNING + AFTERNOON
"""Relative traffic of each hour, in UTC."""
WEEKDAYS = (1.0, 1.0, 1.05, 1.15, 1.2, 0.75, 0.6)
GROWTH = 0.6
"""Growth of the traffic from the first to the last day."""
HOUR = timedelta(hours=1)
OUTAGES = ((9, 2, 0.4), (0.25, 1, 0.45))
"""Outages of a provider: days ago, hours, and share of failing turns."""
USUAL_FAILURE_RATE = 0.012


class TrafficPattern:
    """The traffic of the days until now."""

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

    def random_time(self, rng: random.Random) -> datetime:
        """Return a random start time of a conversation."""
        index = bisect(self._ends, rng.random() * self._ends[-1])
        return self._hours[min(index, len(self._hours) - 1)] + rng.random() * HOUR

    def failure_rate(self, at: datetime) -> float:
        """Return the share of failing turns at a time."""
        for days_ago, hours, share in OUTAGES:
            started_at = self.now - timedelta(days=days_ago)
            if started_at <= at < started_at + hours * HOUR:
                return share
        return USUAL_FAILURE_RATE
