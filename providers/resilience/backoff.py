"""The delay before a retry."""

import asyncio
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from core.runtime.backoff import exponential_seconds

FLOOR_SECONDS = 0.25
"""A retry at once meets the same failure."""
MIN_SECONDS = 0.5
MAX_SECONDS = 8.0
MAX_RETRY_AFTER_SECONDS = 30.0
"""A longer Retry-After gets no retry: the caller receives the error at once."""


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait from any form of Retry-After."""
    milliseconds = _parse_seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("Retry-After", headers.get("retry-after"))
    seconds = _parse_seconds(value)
    return seconds if seconds is not None or value is None else _seconds_until(value)


def _parse_seconds(value: str | None) -> float | None:
    try:
        seconds = float(value) if value is not None else None
    except ValueError:
        return None
    # Python parses "nan" and "inf" as floats.
    return seconds if seconds is not None and 0 <= seconds < 1e9 else None


def _seconds_until(date: str) -> float | None:
    try:
        time = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return max(0.0, (time - datetime.now(UTC)).total_seconds())


def delay_seconds(attempt: int, minimum_seconds: float | None) -> float | None:
    """Return how long to wait before attempt number `attempt` (1 is the first retry).

    Exponential with jitter from `FLOOR_SECONDS` on; the provider's Retry-After is the
    minimum. None if it exceeds the longest wait allowed.
    """
    if minimum_seconds is not None and minimum_seconds > MAX_RETRY_AFTER_SECONDS:
        return None
    ceiling = exponential_seconds(attempt, minimum=MIN_SECONDS, maximum=MAX_SECONDS)
    jitter = random.uniform(FLOOR_SECONDS, ceiling)  # noqa: S311 (no secret depends on it)
    return max(minimum_seconds or 0.0, 0.0) + jitter


async def sleep(seconds: float) -> None:
    """Wait before a retry; tests replace the clock here."""
    await asyncio.sleep(seconds)
