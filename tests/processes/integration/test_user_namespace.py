"""A wrong namespace of users' ids would hide every memory, so nothing starts."""

import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing

import pytest

from access.users.user_namespace import PUBLIC_NAMESPACE
from config.loading import secrets_file
from config.loading.secrets_file import KEYS, USER_NAMESPACE
from tests.processes.conftest import MANAGE, Project, end

DERIVE = """
import sys
import django
django.setup()
from access.users import identity
from django.core.management import call_command
for command in sys.argv[1:]:
    call_command(command)
print()
print(identity.derive_user_id("ada"))
"""
ALICE = str(uuid.uuid5(PUBLIC_NAMESPACE, "ada"))


@pytest.fixture
def fresh(project: Project) -> Project:
    """A new project, without keys and database."""
    for name in (USER_NAMESPACE, *KEYS):
        project.environment.pop(name, None)
    project.environment["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
    return project


def derived(project: Project, command: str | None = None) -> tuple[str, bool]:
    """Return a user's id, and whether a process warns of the namespace.

    The process runs the command first.
    """
    completed = subprocess.run(
        [sys.executable, "-c", DERIVE, *([command] if command else [])],
        cwd=project.root,
        env={
            **project.environment,
            "PYTHONPATH": str(MANAGE).removesuffix("manage.py"),
        },
        capture_output=True,
        text=True,
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.splitlines()[-1], "(coulisse.W306)" in completed.stderr


def refused(project: Project, *words: str) -> str:
    completed = project.run(*words)
    assert completed.returncode == 1, completed.stdout + completed.stderr
    return completed.stderr


def test_server_and_commands_of_a_new_installation_agree(fresh: Project) -> None:
    assert "W306" not in fresh.run("check").stderr
    assert not (fresh.state.root / "secrets.env").exists()
    end(fresh.serve())
    stored = secrets_file.read_keys(fresh.state.root / "secrets.env")
    expected = str(uuid.uuid5(uuid.UUID(stored[USER_NAMESPACE]), "ada"))
    assert derived(fresh, "check") == (expected, False)
    assert expected != ALICE
    # The keys stay when the database is deleted, and so does the namespace.
    assert fresh.run("reset", "-y").returncode == 0
    assert derived(fresh, "migrate") == (expected, False)


def test_first_command_decides_for_the_server(fresh: Project) -> None:
    before = derived(fresh, "migrate")
    end(fresh.serve())
    assert derived(fresh) == before
    assert before[0] != ALICE


def test_older_installation_keeps_its_users(fresh: Project) -> None:
    assert fresh.run("migrate").returncode == 0
    path = fresh.state.root / "coulisse-memory.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "INSERT INTO memory_thread (user_id, name, length, summarized_until, "
            "created_at, updated_at) VALUES (?, '', 0, 0, '2026-01-01', '2026-01-01')",
            [uuid.UUID(ALICE).hex],
        )
        # Versions without namespaces stored no row.
        database.execute("DELETE FROM access_usernamespace")
    assert "(coulisse.W306)" in fresh.run("check").stderr
    end(fresh.serve())
    assert derived(fresh, "check") == (ALICE, True)
    assert not (fresh.state.root / "secrets.env").exists()
    fresh.environment[USER_NAMESPACE] = str(uuid.uuid4())
    assert f"{USER_NAMESPACE}={PUBLIC_NAMESPACE}" in refused(fresh, "start")


def test_lost_namespace_stops_every_command(fresh: Project) -> None:
    end(fresh.serve())
    file = fresh.state.root / "secrets.env"
    content = file.read_bytes()
    file.unlink()
    for words in (("start", "-F"), ("worker",), ("check",)):
        error = refused(fresh, *words)
        assert f"{USER_NAMESPACE} is missing" in error, words
        assert "from its backup" in error
        assert not file.exists()
    file.write_bytes(content)
    file.chmod(0o600)
    end(fresh.serve())


def test_restart_with_a_lost_namespace_keeps_the_server(fresh: Project) -> None:
    server = fresh.serve()
    (fresh.state.root / "secrets.env").unlink()
    assert f"{USER_NAMESPACE} is missing" in refused(fresh, "restart")
    assert server.poll() is None
    end(server)


def test_replica_with_another_namespace_does_not_start(fresh: Project) -> None:
    fresh.environment[USER_NAMESPACE] = str(uuid.uuid4())
    end(fresh.serve())
    fresh.environment[USER_NAMESPACE] = other = str(uuid.uuid4())
    for words in (("start",), ("erase-user", "ada", "-y")):
        error = refused(fresh, *words)
        assert f"the same {USER_NAMESPACE}" in error.replace("\n", " "), words
        assert other not in error
