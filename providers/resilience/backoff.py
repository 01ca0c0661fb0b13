"""The delay before a retry."""

import asyncio
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MIN_SECONDS = 0.5
MAX_SECONDS = 8.0
MAX_RETRY_AFTER_SECONDS = 30.0
"""A longer Retry-After gets no retry: the caller receives the error at once."""


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds a reply asks us to wait, from any form of Retry-After."""
    milliseconds = _parse_seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("Retry-After", headers.get("retry-after"))
    seconds = _parse_seconds(value)
    return seconds if seconds is not None or value is None else _seconds_until(value)


def _parse_seconds(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else None
    except ValueError:
        return None
    # "nan" and "inf" are floats to Python, and no time to wait.
    return number if number is not None and 0 <= number < 1e9 else None


def _seconds_until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def delay_seconds(attempt: int, asked: float | None) -> float | None:
    """Return how long to wait before attempt number `attempt` (1 is the first retry).

    Exponential with full jitter; the provider's Retry-After is the minimum. None if it
    exceeds the longest wait allowed.
    """
    if asked is not None and asked > MAX_RETRY_AFTER_SECONDS:
        return None
    ceiling = min(MAX_SECONDS, MIN_SECONDS * 2 ** (attempt - 1))
    jitter = random.uniform(0, ceiling)  # noqa: S311 (no secret depends on it)
    return max(asked or 0.0, 0.0) + jitter


async def sleep(seconds: float) -> None:
    """Wait before a retry; tests replace the clock here."""
    await asyncio.sleep(seconds)
