"""The whole server behind pgbouncer, whose transactions share connections."""

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from testing.scripted_provider import FakeProvider
from tests.processes.conftest import listening_socket, until
from tests.upgrades import fleet
from tests.upgrades.fleet import Server

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = [
    pytest.mark.database,
    pytest.mark.skipif(not fleet.postgresql_url(), reason="it is for PostgreSQL"),
    pytest.mark.skipif(not PGBOUNCER, reason="pgbouncer is not installed"),
]
SETTINGS = """
[databases]
* = {server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 200
"""
TURNS = 40
ITERATE = """
from django.db import connections
from telemetry.models import Turn
rows = Turn.objects.order_by("pk").iterator(chunk_size=2)
next(rows)
# It takes the connection that was used last.
other = connections.create_connection("default")
other.set_autocommit(False)
other.cursor().execute("SELECT 1")
print(1 + len(list(rows)))
other.close()
"""


@pytest.fixture
def pooled_url(database_url: str, tmp_path: Path) -> Iterator[str]:
    """The new database, through a pgbouncer with three connections."""
    with psycopg.connect(database_url) as direct:
        info = direct.info
        # pgbouncer refuses to run as root, and has to reach the database's socket.
        owner = pwd.getpwuid(Path(info.host).stat().st_uid).pw_name
        server = f"host={info.host} port={info.port} user={info.user}"
        server += f" password={info.password}" if info.password else ""
    port = listening_socket.find_free_port()
    file = tmp_path / "pgbouncer.ini"
    file.write_text(SETTINGS.format(server=server, port=port))
    user = ["-u", owner] if os.geteuid() == 0 else []
    assert PGBOUNCER
    process = subprocess.Popen(
        [PGBOUNCER, *user, file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        until(lambda: process.poll() is not None or _is_open(port))
        assert process.poll() is None, process.communicate()[0]
        name = urlsplit(database_url).path
        yield f"postgres://anyone@127.0.0.1:{port}{name}"
    finally:
        process.kill()
        process.communicate()


def _is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_server_behind_pgbouncer(
    tmp_path: Path, pooled_url: str, database_url: str, fake: FakeProvider
) -> None:
    servers = [Server(tmp_path / name, fake.base_url) for name in ("one", "two")]
    for server in servers:
        server.environment["DATABASE_URL"] = pooled_url
        server.environment["DATABASE_POOLER"] = "transaction"
    one, two = servers
    # At once, on an empty database: one of them migrates it.
    with one.serving("web,worker,beat"), two.serving("web"):
        with ThreadPoolExecutor(8) as executor:
            chats = [
                executor.submit(servers[number % 2].chat, f"user{number % 5}")
                for number in range(TURNS)
            ]
        assert [chat.result() for chat in chats]
        counted = one.run("shell", "-v", "0", "-c", ITERATE)
        assert counted.stdout.strip() == str(TURNS), counted.stderr
        one.wait_for_task(one.add_task("ann"), "ann")
        assert one.failing_pages() == []
        one.edit_agent("helps everybody")
        until(lambda: two.knows_purpose("helps everybody"))
        with psycopg.connect(database_url) as direct:
            names = direct.execute(
                "SELECT DISTINCT application_name FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchall()
        # Three by the pool, of all processes.
        assert 1 <= len(names) <= 3
        # The pooler's own connections have none until a process uses them.
        assert all(name.startswith("coulisse ") for (name,) in names if name), names
