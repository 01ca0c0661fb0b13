"""Budgets that are renewed after any time: here, after a day or a month."""

import re
from typing import Any

UNITS = {
    "s": 1 / 86_400,
    "m": 1 / 1_440,
    "h": 1 / 24,
    "d": 1,
    "w": 7,
    "mo": 30,
    "y": 365,
}
"""The days of each."""
NAMES = {"daily": 1, "weekly": 7, "monthly": 30, "hourly": 1 / 24, "yearly": 365}
DURATION = re.compile(r"(\d{1,6})(s|m|h|d|w|mo|y)", re.ASCII)
MONTH_DAYS = range(28, 32)


def read_days(duration: str) -> float | None:
    """Return the days of a duration such as `30d` or `1mo`; None if it is none."""
    text = duration.strip().lower()
    if text in NAMES:
        return NAMES[text]
    match = DURATION.fullmatch(text)
    return int(match[1]) * UNITS[match[2]] if match and int(match[1]) else None


def as_limit(usd: float, duration: str | None) -> tuple[dict[str, Any], str]:
    """Return a budget as fields of `limits:`, and how it differs, if it does.

    Those without a duration are never renewed in LiteLLM.
    """
    days = read_days(duration or "")
    if days is None:
        return {}, "a limit is renewed every day or month; give an API token a budget"
    if days in MONTH_DAYS:
        return {"usd_per_month": _money(usd)}, ""
    if days > 1 and days < min(MONTH_DAYS):
        daily = _money(usd / days)
        return {
            "usd_per_day": daily
        }, f"${usd:g} per {duration} became ${daily:g} a day"
    if days > 1:
        monthly = _money(usd * 30 / days)
        problem = f"${usd:g} per {duration} became ${monthly:g} a month"
        return {"usd_per_month": monthly}, problem
    note = "" if days == 1 else f"${usd:g} per {duration} became ${usd:g} a day"
    return {"usd_per_day": _money(usd)}, note


def _money(usd: float) -> float:
    """Return an amount in whole millionths of a dollar, rounded down."""
    return int(usd * 1_000_000) / 1_000_000
