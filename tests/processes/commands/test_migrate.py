"""`migrate`, run before the first start of a server."""

import sqlite3
from contextlib import closing

from tests.processes.conftest import Project


def test_migrate_creates_the_database_beside_the_yaml(project: Project) -> None:
    elsewhere = project.root / "b"
    elsewhere.mkdir()
    migrated = project.run("migrate", "-cb/other.yaml", "--verbosity=0")
    assert (migrated.returncode, migrated.stderr) == (0, "")
    state = elsewhere / ".coulisse"
    assert (state / "coulisse-memory.db").exists()
    assert state.stat().st_mode & 0o777 == 0o700
    assert not project.state.root.exists()


def test_migrate_reports_an_unwritable_directory(project: Project) -> None:
    project.state.root.write_text("a file where the directory belongs")
    refused = project.run("migrate")
    assert refused.returncode == 1
    assert refused.stderr.startswith("CommandError: cannot write to the state")


def test_database_with_unknown_schema_is_refused(
    project: Project,
) -> None:
    assert project.run("migrate", "--verbosity=0").returncode == 0
    path = project.state.root / "coulisse-memory.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "UPDATE django_migrations SET name = '0001_of_another_version' "
            "WHERE app = 'memory' AND name LIKE '0001_%'"
        )
    for command in ("migrate", "start"):
        refused = project.run(command)
        assert refused.returncode == 1
        assert "memory.0001_of_another_version" in refused.stderr
        assert "coulisse reset" in refused.stderr
    assert project.run("reset", "--yes").returncode == 0
    assert project.run("migrate", "--verbosity=0").returncode == 0


def test_database_of_a_later_version_is_served(project: Project) -> None:
    assert project.run("migrate", "--verbosity=0").returncode == 0
    path = project.state.root / "coulisse-memory.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) "
            "VALUES ('memory', '9999_later', '2027-01-01')"
        )
    assert project.run("migrate", "--verbosity=0").returncode == 0
