"""Times and money as the API returns them."""

from datetime import UTC, datetime


def to_usd(micro_usd: int | None) -> float | None:
    return None if micro_usd is None else micro_usd / 1_000_000


def format_time(at: datetime) -> str:
    """Return an instant in the format of the API."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
