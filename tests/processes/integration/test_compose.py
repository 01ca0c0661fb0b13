"""docker-compose.yml with three webs, two workers and a beat behind haproxy."""

import json
import os
import shutil
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path

import psycopg
import pytest

from config.loading import secrets_file
from processes.server import listening_socket
from testing.scripted_provider import FakeProvider
from tests.processes.conftest import TIMEOUT_SECONDS, until
from tests.processes.support import compose
from tests.processes.support.compose import Container

PATHS = f"{os.environ['PATH']}:/usr/sbin"
HAPROXY = shutil.which("haproxy", path=PATHS)
REDIS = shutil.which("redis-server", path=PATHS)
pytestmark = [
    pytest.mark.database,
    pytest.mark.skipif(not os.environ.get("DATABASE_URL"), reason="for PostgreSQL"),
    pytest.mark.skipif(not HAPROXY or not REDIS, reason="haproxy, redis are missing"),
]
SCALE = {"web": 3, "worker": 2, "beat": 1}
CLIENTS = 6
ROLES = "SELECT kind, count(*) FROM database_runningprocess GROUP BY kind"


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    port = listening_socket.find_free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    process = subprocess.Popen(
        [str(REDIS), *options, "--dir", str(tmp_path)], stdout=subprocess.DEVNULL
    )
    yield f"redis://127.0.0.1:{port}/0"
    process.terminate()
    process.wait(TIMEOUT_SECONDS)


@pytest.fixture
def fleet(
    tmp_path: Path, database_url: str, redis_url: str, fake: FakeProvider
) -> Iterator[dict[str, list[Container]]]:
    """The running containers, by service."""
    given = secrets_file.generate() | {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "POSTGRES_PASSWORD": "p",
    }
    with ExitStack() as stack:
        Container(tmp_path / "migrate", "migrate", given, fake.base_url).run()
        fleet = {
            service: [
                Container(tmp_path / f"{service}-{n}", service, given, fake.base_url)
                for n in range(number)
            ]
            for service, number in SCALE.items()
        }
        for container in (each for group in fleet.values() for each in group):
            stack.callback(container.end, signal.SIGKILL)
            container.start()
        for web in fleet["web"]:
            until(lambda web=web: is_ready(web.port), 2 * TIMEOUT_SECONDS)
        yield fleet


def is_ready(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


class Clients:
    """Users who chat through the proxy until they are stopped."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._numbers = count()
        self._stopped = threading.Event()
        self.acknowledged: list[str] = []
        self.failures: list[str] = []

    def chat(self) -> None:
        while not self._stopped.is_set():
            mark = f"mark-{next(self._numbers)}-"
            try:
                status, body = self._send(mark)
            except (OSError, HTTPException) as exc:
                self.failures.append(f"{mark}: {exc!r}")
                continue
            if status == 200 and (b"[DONE]" in body or b'"finish_reason"' in body):
                self.acknowledged.append(mark)
            else:
                self.failures.append(f"{mark}: {status} {body[-300:]!r}")

    def _send(self, mark: str) -> tuple[int, bytes]:
        body = {
            "model": "assistant",
            "messages": [{"role": "user", "content": f"Remember {mark}"}],
            "safety_identifier": f"user-{mark}",
            "stream": int(mark.split("-")[1]) % 2 == 0,
        }
        connection = HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_SECONDS)
        try:
            headers = {"Content-Type": "application/json"}
            path = "/v1/chat/completions"
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def wait_for(self, number: int) -> None:
        """Wait until so many further turns are acknowledged."""
        goal = len(self.acknowledged) + number
        until(lambda: len(self.acknowledged) >= goal)

    def stop(self) -> None:
        self._stopped.set()


def test_no_acknowledged_turn_is_lost_while_webs_stop_and_die(
    fleet: dict[str, list[Container]], tmp_path: Path, database_url: str
) -> None:
    first, second, third = fleet["web"]
    ports = [web.port for web in fleet["web"]]
    with (
        compose.proxy(tmp_path, str(HAPROXY), ports) as port,
        psycopg.connect(database_url, autocommit=True) as database,
        ThreadPoolExecutor(CLIENTS) as executor,
    ):
        until(lambda: is_ready(port))
        until(lambda: dict(database.execute(ROLES).fetchall()) == SCALE)
        clients = Clients(port)
        chats = [executor.submit(clients.chat) for _ in range(CLIENTS)]
        try:
            clients.wait_for(60)
            # An orderly stop is seen by no client.
            first.end()
            assert clients.failures == []
            clients.wait_for(30)
            first.start()
            until(lambda: is_ready(first.port))
            second.end(signal.SIGKILL)
            clients.wait_for(60)
        finally:
            clients.stop()
        for chat in chats:
            chat.result(TIMEOUT_SECONDS)
        # Of a killed process, only what it had begun fails.
        assert len(clients.failures) <= CLIENTS, clients.failures
        rows = database.execute("SELECT text FROM memory_message").fetchall()
        text = Counter(
            word for (content,) in rows for word in content.split() if "mark-" in word
        )
        stored = Counter(f"mark-{word.split('-')[1]}-" for word in text.elements())
        assert {mark: stored[mark] for mark in clients.acknowledged} == dict.fromkeys(
            clients.acknowledged, 1
        )
        assert third.process is not None
        assert third.process.poll() is None
