"""What `coulisse migrate-database` refuses, and its messages."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management.base import CommandError
from django.db import connection
from django.utils import timezone

from coulisse_site import environment
from database.models import RunningProcess
from database.transfer import databases, rows
from database.transfer.databases import TARGET
from memory.models import Owner
from processes.supervision import pidfile, state_directory
from tests.database.transfer import sample_rows
from tests.database.transfer.conftest import SERVER, move

pytestmark = pytest.mark.database

on_postgresql = pytest.mark.skipif(not SERVER, reason="needs PostgreSQL as the target")


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:se%63ret@h/n",
        "postgres://u:se#cret@h/n",
        "postgres://u:secret@h:port/n",
        "postgres://u:secret@h:5432",
        "sqlite:///",
        "",
    ],
)
def test_invalid_url_is_refused_without_its_password(source: str, url: str) -> None:
    with pytest.raises(CommandError, match="--to: the URL must be") as refused:
        move(url)
    assert "cret" not in str(refused.value)


def test_unreachable_server_is_named_without_its_password(source: str) -> None:
    url = "postgres://u:s3cret@127.0.0.1:1/n?connect_timeout=2"
    with pytest.raises(CommandError, match="cannot open PostgreSQL 'n' at") as refused:
        move(url)
    assert "s3cret" not in str(refused.value)


def test_missing_directory_is_refused(source: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"the directory .* does not exist"):
        move(f"sqlite:///{tmp_path / 'missing' / 'new.db'}")


def test_file_of_another_program_is_refused(source: str, tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("no database" * 1_000)
    with pytest.raises(CommandError, match="cannot open SQLite"):
        move(f"sqlite:///{path}")


def test_missing_source_is_refused(
    default: Callable[[str], None], new_url: Callable[[], str], tmp_path: Path
) -> None:
    path = tmp_path / "missing.db"
    default(f"sqlite:///{path}")
    with pytest.raises(CommandError, match="there is nothing to move"):
        move(new_url())
    assert not path.exists()


def test_source_without_migrations_is_refused(
    source: str, new_url: Callable[[], str]
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'judges'")
    with pytest.raises(CommandError, match=r"lacks migrations.*coulisse migrate"):
        move(new_url())


def test_target_with_rows_is_refused(source: str, new_url: Callable[[], str]) -> None:
    sample_rows.add_rows()
    url = new_url()
    move(url)
    for options in ({}, {"dry_run": True}):
        with pytest.raises(CommandError, match=r"is not empty: \w+ has rows"):
            move(url, **options)


def test_the_same_database_is_refused(
    source: str, new_url: Callable[[], str], default: Callable[[str], None]
) -> None:
    url = new_url()
    move(url)
    default(url)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM access_usernamespace")
    for _ in range(2):
        with pytest.raises(CommandError, match="both databases are the same"):
            move(url)


def test_part_of_another_move_is_refused(
    source: str,
    new_url: Callable[[], str],
    default: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, other = new_url(), new_url()
    move(other)
    with monkeypatch.context() as patch:
        patch.setattr(rows, "insert", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            move(url)
    default(other)
    with pytest.raises(CommandError, match="has a part of the rows of SQLite"):
        move(url)
    default(url)
    with pytest.raises(CommandError, match="target of an unfinished move itself"):
        move(other)


def test_running_server_is_refused(source: str, new_url: Callable[[], str]) -> None:
    state = state_directory.current_state()
    state.prepare()
    server = pidfile.PidFile(state.pid)
    server.acquire()
    try:
        with pytest.raises(CommandError, match="the server is running"):
            move(new_url())
    finally:
        server.release()


def test_server_on_another_machine_is_refused(
    source: str, new_url: Callable[[], str]
) -> None:
    now = timezone.now()
    gone = RunningProcess(pk=uuid4(), kind="web", host="gone", pid=1)
    gone.started_at = gone.seen_at = now - timedelta(seconds=13)
    gone.save()
    url = new_url()
    move(url, dry_run=True)
    gone.pk, gone.host, gone.seen_at = uuid4(), "other", now
    gone.save(force_insert=True)
    with pytest.raises(CommandError, match=r"a server uses .* \(web on other, PID 1"):
        move(url)


def test_dry_run_leaves_no_trace(source: str, new_url: Callable[[], str]) -> None:
    sample_rows.add_rows()
    url = new_url()

    output = move(url, dry_run=True)

    assert f"{len(rows.list_models())} tables, " in output
    if connection.vendor == "sqlite" and url.startswith("sqlite"):
        assert not Path(url.removeprefix("sqlite:///")).exists()
    else:
        with databases.named(TARGET, environment.parse_database_url(url)):
            assert connection.introspection.table_names() == []


@pytest.fixture
def role(postgresql: Any) -> Iterator[str]:
    """A role of PostgreSQL that may connect, and no more."""
    name = f"moved_{uuid4().hex[:12]}"
    postgresql.execute(f"CREATE ROLE {name} LOGIN PASSWORD 's3cret'")
    yield name
    postgresql.execute(f"DROP ROLE {name}")


@on_postgresql
def test_role_without_rights_is_refused(
    source: str, new_url: Callable[[], str], role: str
) -> None:
    url = new_url().replace("postgres:@", f"{role}:s3cret@")
    with pytest.raises(CommandError, match="extension pgvector is missing") as refused:
        move(url)
    assert "CREATE EXTENSION vector" in str(refused.value)
    owner = environment.parse_database_url(url) | {"USER": "postgres", "PASSWORD": ""}
    with databases.named(TARGET, owner), connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION vector")
    with pytest.raises(CommandError, match="cannot create tables on") as refused:
        move(url)
    assert "s3cret" not in str(refused.value)


@on_postgresql
def test_other_encoding_is_refused(source: str, new_url: Callable[..., str]) -> None:
    options = "TEMPLATE template0 ENCODING LATIN1 LC_COLLATE 'C' LC_CTYPE 'C'"
    url = new_url(options)
    with pytest.raises(CommandError, match="has the encoding LATIN1"):
        move(url)


def test_row_that_cannot_be_stored_is_named(
    source: str, new_url: Callable[[], str]
) -> None:
    """SQLite stores texts that PostgreSQL refuses."""
    keys = sample_rows.add_rows()
    url = new_url()
    if url.startswith("sqlite"):
        move(url)  # Only to have tables, of which one becomes stricter.
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file, file:
            for model in reversed(rows.list_models()):
                file.execute(f"DELETE FROM {model._meta.db_table}")
            file.execute(
                "CREATE TRIGGER strict BEFORE INSERT ON memory_owner "
                "WHEN instr(new.time_zone, char(0)) "
                "BEGIN SELECT raise(ABORT, 'no NUL here'); END"
            )
    Owner.objects.filter(pk=keys[Owner][1]).update(time_zone="a\0b")

    key = keys[Owner][1]
    with pytest.raises(CommandError, match=f"memory_owner: .* row {key}: .*NUL"):
        move(url)
