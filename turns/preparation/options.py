"""Turn options that a client sets in `metadata` or in headers."""

import zoneinfo
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, cast

from django.http import HttpRequest

from access.config import USERS
from access.users.request_user import THREAD_HEADER, GivenName, header_values
from agents.config import AGENTS
from config import live
from config.sections import Config
from config.validation.suggestions import did_you_mean
from core.errors import Invalid
from core.history import CHOICES, History, HistoryMode
from core.ids import TurnId
from core.text.sanitization import escape_and_truncate
from turns.preparation import reply_language

MAX_THREAD_LENGTH = 512
DEFAULT_THREAD = "default"
"""How requests and addresses name the default thread, whose own name is empty."""
CONVERSATION_PREFIX = "conv_"
"""Of threads that clients create over `/v1/conversations`."""
HISTORY_HEADER = "X-Coulisse-History"

TURN_OPENAPI: dict[str, Any] = {
    "parameters": [
        {
            "in": "header",
            "name": name,
            "schema": {"type": "string"},
            "required": False,
            "description": f"Like `metadata.{key}`.",
        }
        for name, key in ((THREAD_HEADER, "thread_id"), (HISTORY_HEADER, "history"))
    ]
}
"""The OpenAPI parameters of the headers that `request_metadata` reads."""

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
    history: History | None = None
    """How to read the request's messages; None leaves it to token, agent or server."""
    continues: TurnId | None = None
    """The turn that the request follows, in its thread; None: the newest."""
    is_incognito: bool = False
    """The turn reads no memory and stores no rows."""
    is_memory_off: bool = False
    """No facts are recalled or extracted; the conversation is stored."""
    ends_session: bool = False
    """The session of the thread ends with the turn."""
    time_zone: str = ""
    """The user's IANA time zone; "" if unknown."""
    token_limits: Mapping[str, int] = field(default_factory=dict)
    """Token limits of the user for an `hour`, a `day`, a `month`."""


def with_own_thread(
    options: TurnOptions, agent: str, history_mode: HistoryMode
) -> TurnOptions:
    """Return the options with the agent's own thread of that name: `NAME@AGENT`.

    Conversations that clients send, or create as objects, are known by themselves, and
    a name from a list of threads has the agent already. Raises `OptionInvalid` if the
    name is too long.
    """
    is_found = history_mode != "server" and not options.thread
    if is_found or options.thread.startswith(CONVERSATION_PREFIX):
        return options
    if options.thread.endswith(f"@{agent}"):
        return options
    thread = f"{options.thread or DEFAULT_THREAD}@{agent}"
    if len(thread) > MAX_THREAD_LENGTH:
        longest = MAX_THREAD_LENGTH - len(agent) - 1
        raise OptionInvalid(
            "thread_id",
            f"must be at most {longest} characters for agent '{agent}', which has "
            "threads of its own",
        )
    return replace(options, thread=thread)


def is_thread_known(options: TurnOptions, history_mode: HistoryMode) -> bool:
    """Return whether the thread is known before the turn is stored.

    That of a conversation that the client sends, without naming it, is found then.
    """
    return history_mode != "client" or bool(options.thread)


def for_agent(config: Config, agent: str, options: TurnOptions) -> TurnOptions:
    """Return the options with the thread that the agent means by its name."""
    found = config.get(AGENTS).get(agent)
    if found is None or found.threads == "shared":
        return options
    return with_own_thread(options, agent, "server")


class OptionInvalid(Invalid):
    """An option of a turn has an invalid value."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"metadata key '{key}' {problem}", param=f"metadata.{key}")
        self.problem = problem


def request_metadata(
    request: HttpRequest, metadata: Mapping[str, str] | None
) -> Mapping[str, str]:
    """Return a request's metadata, completed by the options in its headers.

    Raises `Invalid` for an invalid header, and for two different threads. A `history`
    in the metadata takes precedence over the header's.
    """
    metadata = metadata or {}
    thread_headers = (THREAD_HEADER, live.current().get(USERS).headers.thread)
    threads = header_values(request, *thread_headers)
    histories = header_values(request, HISTORY_HEADER)
    if not threads and not histories:
        return metadata
    if "thread_id" in metadata:
        threads.append(GivenName(metadata["thread_id"], "metadata.thread_id"))
    return {
        **_read_header("history", histories),
        **metadata,
        **_read_header("thread_id", threads),
    }


def _read_header(key: str, values: Sequence[GivenName]) -> Mapping[str, str]:
    """Return the only value of an option that headers set."""
    for given in values:
        try:
            read_options({key: given.name})
        except OptionInvalid as exc:
            raise Invalid(f"{given.place} {exc.problem}", param=given.param) from exc
        if given.name != values[0].name:
            raise Invalid(
                f"the request has two values of {key}, {values[0]} and {given}: send "
                "one",
                param=given.param,
                code="option_conflict",
            )
    return {key: values[0].name} if values else {}


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
        history=cast(History | None, _read_choice(metadata, "history", *CHOICES)),
        is_incognito=incognito,
        is_memory_off=memory is not None,
        ends_session=_read_choice(metadata, "session", "end") is not None,
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
        got = escape_and_truncate(value)
        raise OptionInvalid(key, f"must be a non-negative integer, got '{got}'")
    return min(int(value), MAX_TOKENS)


def _read_choice(metadata: Mapping[str, str], key: str, *values: str) -> str | None:
    value = metadata.get(key)
    if value is not None and value not in values:
        choices = " or ".join(f"'{each}'" for each in values)
        got = escape_and_truncate(value)
        raise OptionInvalid(key, f"must be {choices} or left out, got '{got}'")
    return value


@cache
def _time_zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _read_time_zone(metadata: Mapping[str, str]) -> str:
    name = metadata.get("timezone", "")
    if "timezone" in metadata and name not in _time_zones():
        raise OptionInvalid(
            "timezone",
            "must be the name of a time zone such as 'Europe/Lisbon', "
            f"got '{escape_and_truncate(name)}'{did_you_mean(name, _time_zones())}",
        )
    return name


def _read_thread(metadata: Mapping[str, str]) -> str:
    thread = metadata.get("thread_id", "")
    if "thread_id" in metadata and not thread.strip():
        raise OptionInvalid(
            "thread_id", "is empty: leave it out for the default thread"
        )
    if len(thread) > MAX_THREAD_LENGTH or "\0" in thread:
        raise OptionInvalid(
            "thread_id",
            f"must be at most {MAX_THREAD_LENGTH} characters without NUL",
        )
    return "" if thread == DEFAULT_THREAD else thread
