"""Turn options that a client sets in `metadata`."""

import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from config.validation.suggestions import did_you_mean
from core.errors import Invalid
from core.text.sanitization import escape_and_truncate
from turns.preparation import reply_language

MAX_THREAD_LENGTH = 512

PERIODS = ("hour", "day", "month")
"""Periods for which a request may limit its user's tokens."""

MAX_TOKENS = 10**18
"""Higher limits have no effect and would not fit the counter columns."""


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """The recognised metadata keys, checked."""

    thread: str = ""
    """The user's thread of this turn; "" is the default thread."""
    language_instruction: str = ""
    uses_client_history: bool = False
    """The request's own messages are the conversation, not the stored ones."""
    is_incognito: bool = False
    """The turn reads no memory and stores no rows."""
    is_memory_off: bool = False
    """No facts are recalled or extracted; the conversation is stored."""
    time_zone: str = ""
    """The user's IANA time zone; "" if unknown."""
    token_limits: Mapping[str, int] = field(default_factory=dict)
    """Token limits of the user for an `hour`, a `day`, a `month`."""


def read_options(metadata: Mapping[str, str]) -> TurnOptions:
    """Return the options in a request's metadata; unknown keys are ignored.

    Raises `Invalid`, naming the key, for an invalid value.
    """
    if not metadata:
        return TurnOptions()
    memory = _read_choice(metadata, "memory", "incognito", "off")
    incognito = memory == "incognito"
    return TurnOptions(
        thread=_read_thread(metadata),
        language_instruction=(
            reply_language.instruction(metadata["language"])
            if "language" in metadata
            else ""
        ),
        uses_client_history=bool(_read_choice(metadata, "history", "client"))
        or incognito,
        is_incognito=incognito,
        is_memory_off=memory is not None,
        time_zone=_read_time_zone(metadata),
        token_limits={
            period: _read_limit(metadata, f"tokens_per_{period}")
            for period in PERIODS
            if f"tokens_per_{period}" in metadata
        },
    )


def _read_limit(metadata: Mapping[str, str], key: str) -> int:
    value = metadata[key]
    if not (value.isascii() and value.isdecimal()):
        raise Invalid(
            f"metadata key '{key}' must be a non-negative integer, "
            f"got '{escape_and_truncate(value)}'",
            param=f"metadata.{key}",
        )
    return min(int(value), MAX_TOKENS)


def _read_choice(metadata: Mapping[str, str], key: str, *values: str) -> str | None:
    value = metadata.get(key)
    if value is not None and value not in values:
        choices = " or ".join(f"'{each}'" for each in values)
        raise Invalid(
            f"metadata key '{key}' must be {choices} or left out, "
            f"got '{escape_and_truncate(value)}'",
            param=f"metadata.{key}",
        )
    return value


@cache
def _time_zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _read_time_zone(metadata: Mapping[str, str]) -> str:
    name = metadata.get("timezone", "")
    if "timezone" in metadata and name not in _time_zones():
        raise Invalid(
            "metadata key 'timezone' must be the name of a time zone such as "
            f"'Europe/Lisbon', got '{escape_and_truncate(name)}'"
            f"{did_you_mean(name, _time_zones())}",
            param="metadata.timezone",
        )
    return name


def _read_thread(metadata: Mapping[str, str]) -> str:
    thread = metadata.get("thread_id", "")
    if "thread_id" in metadata and not thread.strip():
        raise Invalid(
            "metadata key 'thread_id' is empty: leave it out for the default thread",
            param="metadata.thread_id",
        )
    if len(thread) > MAX_THREAD_LENGTH or "\0" in thread:
        raise Invalid(
            f"metadata key 'thread_id' must be at most {MAX_THREAD_LENGTH} characters "
            "without NUL",
            param="metadata.thread_id",
        )
    return thread
