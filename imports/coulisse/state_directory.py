"""The state directory of the Rust version, and the order in which it is imported."""

import sqlite3
from argparse import ArgumentParser
from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings

from access.users import identity
from config import live
from config.sections import Config
from files.config import STORAGE
from imports.coulisse import facts, overrides, scores, tokens, users
from imports.coulisse.files import FileImport
from imports.coulisse.history import HistoryImport
from imports.coulisse.source_database import SourceDatabase
from imports.errors import SourceUnreadable
from imports.report import Report
from memory import memory_settings
from memory.config import MEMORY

HELP = "Move in from Coulisse's earlier version, written in Rust."
DATABASE = "coulisse-memory.db"
NO_COUNTERPART = {
    "events": "recorded turns stay in the old database; new ones are recorded here",
    "tool_calls": "they belong to recorded turns",
    "rate_limit_windows": "windows of limits start empty",
    "tasks": "background tasks are not moved: let the old server finish them",
    "smoke_runs": "run the smoke tests again",
    "mcp_oauth_tokens": "users connect their accounts again",
}
"""Tables that are not imported, and what to do about it."""

READ_TABLES = ("api_tokens", "messages", "memories", "scores", *overrides.SECTIONS)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--state",
        type=Path,
        required=True,
        metavar="DIR",
        help="Its state directory: .coulisse beside its coulisse.yaml, moved aside.",
    )
    parser.add_argument(
        "--files-of",
        metavar="USER",
        help="Import the uploaded files as this user's; they have no owner there.",
    )


def run(options: dict[str, Any], report: Report) -> None:
    """Import what has a counterpart; raises `CoulisseError`."""
    config = live.read_effective(options["config"])
    live.set_current(config)
    path = _database_path(options["state"])
    try:
        with closing(SourceDatabase(path, report)) as source:
            _import(source, config)
            _import_files(source, config, options)
    except sqlite3.Error as exc:
        raise SourceUnreadable(
            f"SQLite cannot read {path} ({exc}): repair a copy with `sqlite3 FILE "
            ".recover | sqlite3 NEW`, and import that"
        ) from exc


def _import(source: SourceDatabase, config: Config) -> None:
    report = source.report
    report.total = sum(map(source.count, READ_TABLES))
    users.adopt_namespace(source)
    tokens.import_tokens(source)
    HistoryImport(source, config.get(MEMORY)).run()
    facts.import_facts(source, _embedder_id(config, report))
    scores.import_scores(source)
    overrides.import_overrides(source)
    for table, remedy in NO_COUNTERPART.items():
        if number := source.count(table):
            report.no_counterpart(f"{number:,} rows of '{table}'", remedy)


def _import_files(
    source: SourceDatabase, config: Config, options: dict[str, Any]
) -> None:
    number, owner = source.count("storage_files"), options["files_of"]
    if number and owner is None:
        source.report.no_counterpart(
            f"{number:,} files", "they have no owner: name one with --files-of USER"
        )
    elif number:
        user_id = identity.derive_user_id(identity.check_identifier(owner))
        directory = options["state"] / "files"
        FileImport(source, directory, user_id, config.get(STORAGE)).run()


def _database_path(state: Path) -> Path:
    path = state / DATABASE
    own = Path(str(settings.DATABASES["default"]["NAME"]))
    if path.exists() and own.exists() and path.samefile(own):
        raise SourceUnreadable(
            f"{state} is the state directory of this installation: name that of the "
            "Rust version with --state"
        )
    return path


def _embedder_id(config: Config, report: Report) -> str:
    """Return the id of our embedder, "" if memory is off."""
    memory = memory_settings.resolve_for_users(config)
    if memory is None:
        report.note("memory is off: memories are stored, but prompts have none of them")
    return "" if memory is None else memory.embedder.id
