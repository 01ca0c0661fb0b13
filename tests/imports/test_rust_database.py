"""A database of the Rust version in place of ours is recognised and left alone."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from database import rust_database
from database.rust_database import RustDatabaseFound
from tests.imports.rust_state import RustState

ROOT = Path(__file__).parents[2]


@pytest.fixture
def in_our_place(rust, monkeypatch):
    database = {"ENGINE": "coulisse_site.sqlite", "NAME": rust.path}
    monkeypatch.setattr(settings, "DATABASES", {"default": database})


def content_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("command", ["start", "migrate", "tasks", "reset", "import"])
def test_commands_refuse_the_database_with_the_remedy(
    in_our_place, rust, config_path, command
):
    before = content_of(rust.directory)
    arguments = {"tasks": ["list"], "import": ["coulisse", "--state", "x"]}
    with pytest.raises(CommandError) as error:
        call_command(command, *arguments.get(command, []), "-c", str(config_path))
    state = rust.directory
    assert f"mv {state} {state}-rust" in str(error.value)
    assert f"coulisse import coulisse --state {state}-rust" in str(error.value)
    assert content_of(rust.directory) == before


def test_commands_without_a_database_run(in_our_place, config_path):
    call_command("schema", "-c", str(config_path), stdout=StringIO())


def test_start_touches_nothing(tmp_path):
    rust = RustState(tmp_path / ".coulisse")
    (tmp_path / "coulisse.yaml").write_text("providers: {openai: {api_key: x}}")
    before = content_of(rust.directory)
    environment = {k: v for k, v in os.environ.items() if k != "DATABASE_URL"}
    process = subprocess.run(
        [sys.executable, ROOT / "manage.py", "start", "-c", tmp_path / "coulisse.yaml"],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert process.returncode == 1
    assert "is the database of Coulisse's earlier version" in process.stderr
    assert len(process.stderr.splitlines()) == 1
    assert content_of(rust.directory) == before


def test_database_that_is_only_in_its_log_is_recognised(tmp_path):
    path = tmp_path / "new.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE messages (id)")
        assert rust_database.is_rust_database(path)


def test_log_of_a_killed_server_is_left_alone(rust, tmp_path):
    killed = tmp_path / "killed"
    killed.mkdir()
    with closing(sqlite3.connect(rust.path)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("DROP TABLE memories")
        for suffix in ("", "-wal"):
            name = f"{rust.path.name}{suffix}"
            shutil.copy(rust.directory / name, killed / name)
    before = content_of(killed)
    assert rust_database.is_rust_database(killed / rust.path.name)
    assert content_of(killed) == before
    with closing(rust_database.open_readonly(killed / rust.path.name)) as database:
        assert "memories" not in rust_database.table_names(database)


def test_other_databases_are_accepted(tmp_path, monkeypatch, rust, in_our_place):
    own, other = tmp_path / "own.db", tmp_path / "other.db"
    for path, table in ((own, "django_migrations"), (other, "notes")):
        with closing(sqlite3.connect(path)) as database:
            database.execute(f"CREATE TABLE {table} (id)")
    (tmp_path / "text.db").write_text("text")
    for path in (own, other, tmp_path / "text.db", tmp_path / "missing.db"):
        monkeypatch.setitem(settings.DATABASES["default"], "NAME", path)
        rust_database.refuse()
    monkeypatch.setitem(settings.DATABASES["default"], "NAME", rust.path)
    with pytest.raises(RustDatabaseFound):
        rust_database.refuse()
    monkeypatch.setitem(settings.DATABASES["default"], "ENGINE", "postgresql")
    rust_database.refuse()
    monkeypatch.setitem(settings.DATABASES["default"], "ENGINE", "sqlite3")
    rust.execute("CREATE TABLE django_migrations (id)")
    rust_database.refuse()
