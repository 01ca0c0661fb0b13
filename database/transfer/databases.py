"""The two databases of a transfer: the target is the default one, and the source."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor

from database.errors import TransferRefused
from database.models import RunningProcess
from database.running_processes import GONE_AFTER_SECONDS
from database.transfer.progress import TransferProgress

SOURCE = "source"
TARGET = DEFAULT_DB_ALIAS


@contextmanager
def opened(settings: dict[str, Any]) -> Iterator[None]:
    """Make a database the default one, and the former default one the source."""
    source = copy.deepcopy(connections[TARGET].settings_dict)
    with named(SOURCE, source), named(TARGET, settings):
        yield


@contextmanager
def named(alias: str, settings: dict[str, Any]) -> Iterator[None]:
    """Let an alias name a database, in this process."""
    registered = connections.settings
    former_settings = registered.get(alias)
    former = None if former_settings is None else connections[alias]
    if former is not None:
        del connections[alias]
    registered[alias] = connections.configure_settings({TARGET: settings})[TARGET]
    try:
        yield
    finally:
        connections[alias].close()
        del connections[alias], registered[alias]
        if former is not None:
            registered[alias] = former_settings
            connections[alias] = former


def describe(alias: str) -> str:
    """Return a database's name and place, without its user and password."""
    settings = connections[alias].settings_dict
    name = settings["NAME"]
    if connections[alias].vendor == "sqlite":
        return f"SQLite {Path(name).absolute()}"
    host = settings["HOST"] or settings["OPTIONS"].get("host") or "the local socket"
    port = f":{settings['PORT']}" if settings["PORT"] else ""
    return f"PostgreSQL '{name}' at {host}{port}"


def check_source() -> None:
    """Raise `TransferRefused` unless the source has all tables, and no server."""
    source = connections[SOURCE]
    if source.vendor == "sqlite" and not Path(source.settings_dict["NAME"]).exists():
        raise TransferRefused(
            f"there is nothing to move: {describe(SOURCE)} is missing"
        )
    connect(SOURCE)
    executor = MigrationExecutor(source)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise TransferRefused(
            f"{describe(SOURCE)} lacks migrations of this version: run "
            "`coulisse migrate` for it first"
        )
    if process := RunningProcess.objects.using(SOURCE).running().first():
        raise TransferRefused(
            f"a server uses {describe(SOURCE)} ({process}): stop it first; after a "
            f"kill, wait for {GONE_AFTER_SECONDS} seconds"
        )
    if TransferProgress(SOURCE).exists():
        raise TransferRefused(
            f"{describe(SOURCE)} is the target of an unfinished move itself: finish "
            "that one first"
        )


def connect(alias: str) -> None:
    """Open a database; raises `TransferRefused`."""
    try:
        connections[alias].ensure_connection()
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as exc:
        raise TransferRefused(f"cannot open {describe(alias)}: {exc}".strip()) from exc
