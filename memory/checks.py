"""System checks and alerts: whether the stored data fits the configuration."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.core import checks
from django.db import DatabaseError
from django.db.models import Q, QuerySet
from django.utils import timezone

from config.agent_settings import AGENT_SETTINGS
from config.loading import checked_file
from config.sections import Config
from memory import memory_settings
from memory.config import MEMORY, UserState
from memory.extraction import extraction_tasks
from memory.memory_settings import UserMemory
from memory.models import Passage
from providers.embeddings import embedders

UNUSED = "coulisse.W406"
NEED_USER_STATE = {
    *UserState.model_fields,
    "relevance_limit",
    "salience_limit",
    "salience_threshold",
    "sessions",
}
"""Settings that only count where users are remembered."""
MINUTE = timedelta(minutes=1)
MAX_WAIT = 10 * MINUTE
"""The delay of a due task from which no worker seems to run."""
MAX_COUNTED = 10_000
"""The count stops here: an exact figure would take time and is not needed."""


@checks.register
def check_memory(*, databases: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Warn of stored data that does not fit the configuration.

    Skipped during migrations, which run checks too.
    """
    config = None if databases else checked_file.load()
    if config is None:
        return []
    users = memory_settings.resolve_for_users(config)
    alerts = [*_unused_settings(config), *(find_alerts(users) if users else ())]
    return [checks.Warning(message, id=kind) for kind, message in alerts]


def _unused_settings(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the settings of memory that have no effect, because users are not
    remembered."""
    memory = config.get(MEMORY)
    if memory_settings.resolve_for_users(config) is None:
        yield from _unused("memory", memory.model_fields_set & NEED_USER_STATE)
    for name, agent in config.get(AGENT_SETTINGS).items():
        if (
            agent.memory is None
            or memory_settings.resolve_for_agent(config, name).user_memory
        ):
            continue
        given = {*agent.memory.user_state_fields, *agent.memory.memory_fields}
        yield from _unused(f"agents.{name}.memory", given & NEED_USER_STATE)
    sessions = memory.sessions
    is_given = sessions is not None and "catch_up" in sessions.model_fields_set
    if is_given and sessions and sessions.catch_up and not sessions.episodes:
        yield UNUSED, "memory.sessions.catch_up has no effect without episodes."


def _unused(place: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in sorted(names):
        yield (
            UNUSED,
            f"{place}.{name} has no effect without user_state: set it to true, or "
            f"remove {name}.",
        )


def find_alerts(users: UserMemory) -> Iterator[tuple[str, str]]:
    """Yield alerts as pairs of an id of the kind and a text.

    Yields nothing if the database is unavailable: other alerts report that.
    """
    yield from _config_alerts(users)
    # Read completely before the first yield: the database may become unavailable in
    # between.
    with suppress(DatabaseError):
        yield from list(_storage_alerts(users))


def _config_alerts(users: UserMemory) -> Iterator[tuple[str, str]]:
    warning = embedders.embedder_warning(users.embedder)
    if warning is not None:
        yield "coulisse.W401", f"{warning}."
    model = users.extraction_model
    if model and model.provider.kind == "local" and not model.provider.base_url:
        yield (
            "coulisse.W404",
            f"Model '{model.model}' is too small to extract facts reliably. Set "
            "learn_from to a larger model.",
        )


def _storage_alerts(users: UserMemory) -> Iterator[tuple[str, str]]:
    if foreign_count := _count_foreign_vectors(users.embedder.id):
        yield (
            "coulisse.W402",
            f"{_format_texts(foreign_count)} in memory with vectors of an embedder "
            f"other than {users.embedder.id}: only their words are searched. Run "
            "`coulisse reindex`.",
        )
    if failed_count := _count_rows(extraction_tasks.extractions().errored()):
        yield (
            "coulisse.W403",
            f"Fact extraction failed for {_format_turns(failed_count)}: see `coulisse "
            "extraction --failed`.",
        )
    long_ago = timezone.now() - MAX_WAIT
    overdue = extraction_tasks.extractions().open().filter(due_at__lt=long_ago)
    if late_count := _count_rows(overdue):
        yield (
            "coulisse.W405",
            f"Fact extraction from {_format_turns(late_count)} is overdue by more than "
            f"{MAX_WAIT // MINUTE} minutes: is a worker running?",
        )


def _count_foreign_vectors(embedder: str) -> int:
    others = Q(embedder__lt=embedder) | Q(embedder__gt=embedder)
    return _count_rows(Passage.objects.filter(others).exclude(embedder=""))


def _count_rows(rows: QuerySet[Any]) -> int:
    return rows.order_by()[:MAX_COUNTED].count()


def _format_texts(count: int) -> str:
    return (
        "There is 1 text" if count == 1 else f"There are {_format_count(count)} texts"
    )


def _format_turns(count: int) -> str:
    return f"{_format_count(count)} turn{'' if count == 1 else 's'}"


def _format_count(count: int) -> str:
    return f"{MAX_COUNTED:,} or more" if count >= MAX_COUNTED else f"{count:,}"
