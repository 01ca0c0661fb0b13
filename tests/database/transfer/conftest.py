"""Databases apart from the one of the other tests."""

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.core.management import call_command
from django.test.utils import override_settings

from coulisse_site import environment
from database.transfer import databases
from memory.models import plain_sql

SERVER = os.environ.get("DATABASE_URL", "")


@pytest.fixture(scope="session")
def template(database: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite database with all tables."""
    path = tmp_path_factory.mktemp("template") / "empty.db"
    with databases.named(databases.TARGET, environment.sqlite_settings(path)):
        call_command("migrate", verbosity=0)
    return path


@pytest.fixture
def postgresql() -> Iterator[psycopg.Connection[Any] | None]:
    """The PostgreSQL of the tests; None with SQLite."""
    if not SERVER:
        yield None
        return
    with psycopg.connect(SERVER, autocommit=True) as server:
        yield server


@pytest.fixture
def new_url(
    postgresql: psycopg.Connection[Any] | None, tmp_path: Path
) -> Iterator[Callable[..., str]]:
    """Return a function that makes an empty database of the tests' kind."""
    names = []

    def create(options: str = "") -> str:
        name = f"moved_{uuid.uuid4().hex[:12]}"
        if postgresql is None:
            return f"sqlite:///{tmp_path / name}.db"
        postgresql.execute(f"CREATE DATABASE {name} {options}")
        names.append(name)
        return urlsplit(SERVER)._replace(path=f"/{name}").geturl()

    yield create
    for name in names:
        postgresql.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], None]]:
    """Return a function that makes the database of a URL the default one."""
    uncached = plain_sql._has_native_types.__wrapped__
    monkeypatch.setattr(plain_sql, "_has_native_types", uncached)
    state = tmp_path / "state"
    with ExitStack() as stack:
        stack.enter_context(override_settings(COULISSE_STATE_DIR=state))

        def choose(url: str) -> None:
            settings = environment.parse_database_url(url)
            stack.enter_context(databases.named(databases.TARGET, settings))

        yield choose


@pytest.fixture
def source(
    template: Path, tmp_path: Path, default: Callable[[str], None]
) -> Callable[[str], str]:
    """The default database is a SQLite file with all tables; returns its URL."""
    path = tmp_path / "source.db"
    shutil.copy(template, path)
    default(url := f"sqlite:///{path}")
    return url


def move(url: str, **options: object) -> str:
    """Run the command in this process; return its output."""
    output = StringIO()
    call_command(
        "migrate-database", to=url, stdout=output, stderr=StringIO(), **options
    )
    return output.getvalue()
