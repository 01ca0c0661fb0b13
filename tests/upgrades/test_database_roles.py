"""The roles of docs/production.md: one migrates, the other runs the processes."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from django.conf import settings

from testing.scripted_provider import FakeProvider
from tests.processes.conftest import end
from tests.upgrades import fleet
from tests.upgrades.fleet import Server

pytestmark = [
    pytest.mark.database,
    pytest.mark.skipif(not fleet.postgresql_url(), reason="it is for PostgreSQL"),
]
ROLES = ("coulisse_app", "coulisse_migrate")


def documented_statements() -> list[str]:
    """Return the SQL of the page, without the commands of psql."""
    page = (settings.BASE_DIR / "docs/production.md").read_text()
    (block,) = re.findall(r"```sql\n(CREATE ROLE.*?)```", page, re.DOTALL)
    return [each.strip() for each in re.sub(r"\\connect .*", "", block).split(";")][:-1]


def drop(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("DROP DATABASE IF EXISTS coulisse WITH (FORCE)")
        for role in ROLES:
            server.execute(f"DROP ROLE IF EXISTS {role}")


@pytest.fixture
def urls(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The URL of each role, on a database that is made as the page says."""
    server = fleet.postgresql_url()
    drop(server)
    statements = documented_statements()
    with_extension = getattr(request, "param", True)
    for statement in statements:
        is_inside = statements.index(statement) > 2
        target = urlsplit(server)._replace(path="/coulisse") if is_inside else server
        url = urlunsplit(target) if is_inside else server
        if with_extension or "EXTENSION" not in statement:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(statement)
    with psycopg.connect(server) as connection:
        host, port = connection.info.host, connection.info.port
    passwords = {"coulisse_app": "another", "coulisse_migrate": "one"}
    yield {
        role: f"postgres://{role}:{password}@/coulisse?host={host}&port={port}"
        for role, password in passwords.items()
    }
    drop(server)


def server_of(root: Path, url: str, fake: FakeProvider) -> Server:
    server = Server(root, fake.base_url)
    server.environment |= {"DATABASE_URL": url, "COULISSE_MIGRATE": "off"}
    return server


def test_processes_need_no_right_to_change_tables(
    tmp_path: Path, urls: dict[str, str], fake: FakeProvider
) -> None:
    migrated = server_of(tmp_path / "job", urls["coulisse_migrate"], fake).run(
        "migrate"
    )
    assert migrated.returncode == 0, migrated.stderr
    server = server_of(tmp_path / "server", urls["coulisse_app"], fake)
    refused = server.run("migrate", "memory", "zero")
    assert "must be owner of" in refused.stderr
    server.environment["COULISSE_PROCESSES"] = "web,worker,beat"
    process = server.serve()
    try:
        assert server.chat("ann")
        server.wait_for_task(server.add_task("ann"), "ann")
        server.edit_agent("helps everybody")
        assert server.failing_pages() == []
    finally:
        output = end(process)
    assert "permission denied" not in output


@pytest.mark.parametrize("urls", [False], indirect=True, ids=["without pgvector"])
def test_missing_extension_is_named_with_the_remedy(
    tmp_path: Path, urls: dict[str, str], fake: FakeProvider
) -> None:
    job = server_of(tmp_path / "job", urls["coulisse_migrate"], fake)
    refused = job.run("migrate")
    assert refused.returncode == 1
    assert "superuser run `CREATE EXTENSION vector`" in refused.stderr
    assert "permission denied to create extension" in refused.stderr
    assert "Traceback" not in refused.stderr
