"""Two servers on one database behind a balancer, restarted and killed under load."""

import asyncio
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path

import pytest

from testing.scripted_provider import FakeProvider, RecordedRequest
from testing.wires import ScriptedAnswer
from tests.processes.conftest import TIMEOUT_SECONDS, Project, until

# Of the balancer's connections, which end in whatever order.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)
YAML = """
server: {{bind: 127.0.0.1, port: {port}, drain_seconds: 40, lame_duck_seconds: 1}}
users: shared
providers:
  openai: {{api_key: k, base_url: "{url}"}}
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
"""
SHORT = ScriptedAnswer(tuple("0123456789"), pause_seconds=0.1)
LONG = ScriptedAnswer(tuple("abcdefghijklmnopqrst"), pause_seconds=1)
"""A stream of 20 seconds."""
CLIENTS = 6


class Balancer:
    """Passes each connection to the next server that is ready."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports
        self._ready: set[int] = set()
        self._turns = count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()

    async def _open(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._checks = [asyncio.create_task(self._check(port)) for port in self._ports]
        return int(self._server.sockets[0].getsockname()[1])

    async def _check(self, port: int) -> None:
        while True:
            is_ready = False
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(0.5):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(b"GET /health/ready HTTP/1.0\r\nHost: a\r\n\r\n")
                    is_ready = b" 200 " in await reader.readline()
                    writer.close()
            (self._ready.add if is_ready else self._ready.discard)(port)
            await asyncio.sleep(0.2)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        turn = next(self._turns)
        candidates = sorted(self._ports, key=lambda port: port not in self._ready)
        if len(self._ready) > 1:
            candidates = candidates[turn % 2 :] + candidates[: turn % 2]
        for port in candidates:
            with suppress(ConnectionRefusedError):
                backend = await asyncio.open_connection("127.0.0.1", port)
                break
        else:
            writer.close()
            return
        await asyncio.gather(copy(reader, backend[1]), copy(backend[0], writer))

    def close(self) -> None:
        async def close() -> None:
            self._server.close()
            for check in self._checks:
                check.cancel()
            await asyncio.gather(*self._checks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    with suppress(OSError):
        writer.close()


@dataclass
class Load:
    """Clients that send one stream after the other, until the block ends."""

    port: int
    is_ended: threading.Event = field(default_factory=threading.Event)
    whole: int = 0
    broken: list[str] = field(default_factory=list)
    first_seconds: list[float] = field(default_factory=list)
    """The time until the first byte of each answer."""

    def __enter__(self) -> "Load":
        self._threads = [threading.Thread(target=self._run) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_ended.set()
        for thread in self._threads:
            thread.join(TIMEOUT_SECONDS)

    def _run(self) -> None:
        while not self.is_ended.is_set():
            started_at = time.monotonic()
            try:
                text, waited = stream(self.port, "short")
            except (OSError, HTTPException) as exc:
                text, waited = repr(exc), time.monotonic() - started_at
            self.first_seconds.append(waited)
            if text == "".join(SHORT.pieces):
                self.whole += 1
            else:
                self.broken.append(text)


def stream(port: int, prompt: str) -> tuple[str, float]:
    """Return the text of a streamed reply, and the time until its first byte."""
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        started_at = time.monotonic()
        message = {"role": "user", "content": prompt}
        body = {"model": "assistant", "messages": [message], "stream": True}
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        waited = time.monotonic() - started_at
        frames = response.read().decode().split("data: ")[1:]
    finally:
        connection.close()
    if not frames or frames[-1].strip() != "[DONE]":
        return f"{response.status}, not ended: {frames[-1:]}", waited
    choices = [json.loads(frame)["choices"] for frame in frames[:-1]]
    pieces = [each[0]["delta"].get("content") or "" for each in choices if each]
    return "".join(pieces), waited


@pytest.fixture
def servers(
    project: Project, tmp_path: Path, fake: FakeProvider
) -> Iterator[list[Project]]:
    def answer(request: RecordedRequest) -> ScriptedAnswer:
        return LONG if request.body["messages"][-1]["content"] == "long" else SHORT

    fake.default = answer
    (tmp_path / "other").mkdir()
    projects = [project, Project(tmp_path / "other")]
    for each in projects:
        each.environment["DJANGO_SETTINGS_MODULE"] = (
            "tests.processes.support.shared_settings"
        )
        each.environment["SHARED_DATABASE"] = str(tmp_path / "shared.db")
        each.config.write_text(YAML.format(port=each.port, url=fake.base_url))
        each.serve()
    yield projects
    for each in projects:
        each.attached[-1].terminate()
        each.attached[-1].communicate(timeout=TIMEOUT_SECONDS)
    projects[1].clean()


@pytest.fixture
def balancer(servers: list[Project]) -> Iterator[Balancer]:
    balancer = Balancer([each.port for each in servers])
    until(lambda: len(balancer._ready) == len(servers))
    yield balancer
    balancer.close()


def test_rolling_restart_cuts_no_stream(
    servers: list[Project], balancer: Balancer, fake: FakeProvider
) -> None:
    long: list[str] = []
    with Load(balancer.port) as load:
        for server in servers:
            until(lambda: len(balancer._ready) == len(servers))
            before = len(fake.requests)
            waiting = threading.Thread(
                target=lambda port=server.port: long.append(stream(port, "long")[0])
            )
            waiting.start()
            until(lambda before=before: "long" in prompts(fake, before))
            process = server.attached[-1]
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=TIMEOUT_SECONDS)
            assert process.returncode == 0
            waiting.join(TIMEOUT_SECONDS)
            server.serve()
    logging.info("%d whole, %d broken", load.whole, len(load.broken))
    assert long == ["".join(LONG.pieces)] * len(servers)
    assert load.broken == []
    assert load.whole > 50


def test_killed_web_process_delays_no_other_request(
    servers: list[Project], balancer: Balancer
) -> None:
    with Load(balancer.port) as load:
        until(lambda: load.whole >= 2 * CLIENTS)
        for _ in range(3):
            until(lambda: len(balancer._ready) == len(servers))
            started = load.whole
            [web] = servers[0].run_record.children
            os.kill(web.pid, signal.SIGKILL)
            until(lambda started=started: load.whole >= started + 2 * CLIENTS)
            until(lambda web=web: servers[0].run_record.children[0].pid != web.pid)
    waits = sorted(load.first_seconds)
    p95 = waits[len(waits) * 95 // 100]
    logging.info("%d whole, %d cut, p95 %.2f s", load.whole, len(load.broken), p95)
    # Those that the killed processes were answering.
    assert len(load.broken) <= 3 * CLIENTS
    # Not as long as connections waited for the killed process.
    assert p95 < 5


def prompts(fake: FakeProvider, since: int) -> list[str]:
    return [
        request.body["messages"][-1]["content"] for request in fake.requests[since:]
    ]
