"""Shared fixtures: a scripted provider, the server over HTTP, official clients."""

import asyncio
import contextlib
import functools
import gc
import itertools
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpcore2
import openai
import pytest
import uvicorn
from django.conf import settings as django_settings
from django.db import connection
from django.test.utils import (
    override_settings,
    setup_databases,
    teardown_databases,
)
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from access.authentication import login_throttle
from access.users import user_namespace
from config import live
from config.loading import loader, reader, scanner
from config.loading.secrets_file import USER_NAMESPACE
from config.sections import Config
from database import running_processes
from processes.http_server.connections import ConnectionLimits
from processes.http_server.protocol import protocol_options
from providers import sync_bridge
from providers.transport import endpoint_pool
from studio.server import event_loop_bridge
from tasks.config import TASKS, TasksConfig
from tasks.queue import publisher
from testing.scripted_provider import FakeProvider
from tests import tiers

NAMESPACE = uuid.UUID("9b0f5c1e-3c5e-4f43-8a57-2f6d1c0f7e91")
"""The namespace of user ids in all tests."""

CONFIG = """
providers:
  openai:
    api_key: sk-openai-q7Vd2mXw9Lr4TzK8bNf3HcYs
    base_url: {fake}/v1
    retries: 0
  anthropic:
    api_key: sk-anthropic-9Rk3ZpQ8wXv5LmT2dHs7YgCb
    base_url: {fake}
    retries: 0

agents:
  - name: assistant
    provider: openai
    model: gpt-test
    preamble: You are a test assistant.
  - name: claude
    provider: anthropic
    model: claude-test
    preamble: You are a test assistant.
  - name: forgetful
    provider: openai
    model: gpt-test
    context_tokens: 256
  - name: tuned
    provider: openai
    model: gpt-test
    temperature: 0.0
    max_tokens: 50
    seed: 7
"""

# Results must not depend on the load of the machine.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

TIMEOUT_SECONDS = 60.0
"""The timeout for conditions that are normally met at once."""
HOUR_SECONDS, END_OF_HOUR_SECONDS = 3600, 15
FAKES = 8
DEFAULT_LIMITS = ConnectionLimits()


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Mark and order the tests as `tests/tiers.py` lists them."""
    for item in items:
        if tiers.is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)
        if tiers.needs_clients(item.nodeid):
            item.add_marker(pytest.mark.clients)
        if tiers.is_sqlite_only(item.nodeid):
            item.add_marker(pytest.mark.sqlite_only)
    items.sort(key=lambda item: tiers.rank(item.nodeid))


class ByScope(LoadFileScheduling):
    """Give each worker whole files, and all browser tests to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return tiers.scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByScope | None:
    """Use `ByScope` with `--dist loadfile`."""
    is_by_file = config.getvalue("dist") == "loadfile"
    return ByScope(config, log) if is_by_file else None


def pytest_sessionstart() -> None:
    """Disable garbage collection while modules are imported."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude modules and collected tests from garbage collection, for speed."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def database(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker
) -> Iterator[None]:
    """The tables for the whole run: each test has its own users."""
    if connection.vendor == "sqlite":
        # In a file, because the threads of the server share it.
        name = str(tmp_path_factory.mktemp("database") / "test.db")
    else:
        name = f"test_coulisse_{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
    connection.settings_dict["TEST"]["NAME"] = name
    with django_db_blocker.unblock():
        databases = setup_databases(
            verbosity=0,
            interactive=False,
            # Tables are not restored between tests.
            serialized_aliases=[],
        )
        user_namespace._store_fingerprint(NAMESPACE)
        yield
        if connection.vendor == "postgresql":
            end_other_connections()
        teardown_databases(databases, verbosity=0)


@pytest.fixture(scope="session", autouse=True)
def _no_fleet() -> None:
    """Let no test depend on the workers that tests lack."""
    running_processes.SETTLED_AFTER_SECONDS = 10**9


@pytest.fixture(scope="session", autouse=True)
def _no_broker() -> None:
    """Publish no permits: most tests have no worker."""
    publisher.use_sender(lambda kind: None)


def end_other_connections() -> None:
    """Close the executor's connections, so that the database can be dropped."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.fixture(scope="session", autouse=True)
def _fixed_user_namespace() -> Iterator[None]:
    """Use one namespace of user ids in tests and in the processes they start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(USER_NAMESPACE, str(NAMESPACE))
        patch.setattr(user_namespace, "_established", NAMESPACE)
        # With PostgreSQL, too: tests share their database with no other machine.
        patch.setattr(django_settings, "COULISSE_CREATES_KEYS", True)
        yield


@pytest.fixture(scope="session", autouse=True)
def _certificates_read_once() -> Iterator[None]:
    """Read the TLS certificates once: it takes longer than most tests."""
    read = functools.cache(httpcore2.default_ssl_context)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", read)
        yield


@pytest.fixture(scope="session", autouse=True)
def _yaml_scanned_once() -> Iterator[None]:
    """Cache more parsed YAML texts than the server does: tests reuse many."""
    remembered = functools.lru_cache(maxsize=256)(scanner.compose)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_compose_cached", remembered)
        yield


@pytest.fixture(scope="session", autouse=True)
def _keys_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Store the keys of MCP sign-ins in a temporary directory."""
    path = tmp_path_factory.mktemp("keys") / "secrets.env"
    with override_settings(COULISSE_SECRETS_FILE=path):
        yield


@pytest.fixture(scope="session", autouse=True)
def _files_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Store uploads in a temporary directory."""
    with override_settings(COULISSE_FILES_DIR=tmp_path_factory.mktemp("files")):
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_provider_call_in_a_transaction() -> Iterator[None]:
    """Fail tests that wait for a provider in a transaction: SQLite would be locked."""

    def watched(wait: Callable[..., Any]) -> Callable[..., Any]:
        def watch(
            coroutine: Coroutine[Any, Any, Any], *args: Any, **kwargs: Any
        ) -> Any:
            if connection.in_atomic_block:
                coroutine.close()
                pytest.fail("a transaction waits for a provider")
            return wait(coroutine, *args, **kwargs)

        return watch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sync_bridge, "run_sync", watched(sync_bridge.run_sync))
        patch.setattr(
            event_loop_bridge, "run_on_loop", watched(event_loop_bridge.run_on_loop)
        )
        yield


@pytest.fixture(autouse=True)
def _within_an_hour() -> None:
    """Start no test in the last seconds of an hour, day or month.

    Statistics by hour, day or month would rightly count its rows in two of them.
    """
    remaining = HOUR_SECONDS - time.time() % HOUR_SECONDS
    if remaining < END_OF_HOUR_SECONDS:
        time.sleep(remaining)


@pytest.fixture(autouse=True)
def _no_failed_logins() -> None:
    """Clear failed logins: they would delay the next test."""
    for throttle in (
        login_throttle.API_THROTTLE,
        login_throttle.CONSUMER_THROTTLE,
        login_throttle.STUDIO_THROTTLE,
    ):
        throttle.forget()


@pytest.fixture(autouse=True)
def _circuits_closed() -> None:
    """Close circuit breakers: they would refuse calls of the next test."""
    endpoint_pool._pools.clear()


@pytest.fixture(scope="session")
def fakes() -> Iterator[Iterator[FakeProvider]]:
    """Scripted providers that tests use in rotation.

    Their addresses do not change, so the YAML of most tests is in the cache. There are
    several, so that a late request of one test does not reach the next test's script.
    """
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(FakeProvider()) for _ in range(FAKES)]
        yield itertools.cycle(servers)


@pytest.fixture
def fake(fakes: Iterator[FakeProvider]) -> Iterator[FakeProvider]:
    """The provider of all test agents, with an empty script."""
    provider = next(fakes)
    yield provider
    provider.reset()


@pytest.fixture(scope="session")
def running(database: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The real application under uvicorn; yields its URL."""
    file = tmp_path_factory.mktemp("served") / "coulisse.yaml"
    file.touch()
    live.set_current(Config(file, {}, loader.content_digest(file.read_bytes())))
    with contextlib.ExitStack() as stack:
        # Its watcher runs during all tests; without overlays it sees only this file.
        with override_settings(COULISSE_OVERLAYS=""):
            url = stack.enter_context(serve("coulisse_site.asgi:application"))
        yield url


@pytest.fixture
def configure(
    running: str, fake: FakeProvider, tmp_path: Path
) -> Callable[[str], None]:
    """Return a function that loads a YAML text into the running server.

    Without a `tasks:` section agents have no task tools, unless `task_tools` is true:
    prompts and their costs are those of the test.
    """

    def configure(text: str, *, task_tools: bool = False) -> None:
        path = tmp_path / "coulisse.yaml"
        path.write_text(text.replace("{fake}", fake.root_url))
        config = loader.load_file(path)
        if not (task_tools or "\ntasks:" in text):
            without = {TASKS.key: TasksConfig(tools=False)}
            config = replace(config, values={**config.values, **without})
        live.set_current(config)

    return configure


@pytest.fixture
def server(running: str, configure: Callable[[str], None]) -> str:
    """The URL of the server, with the standard configuration and an empty script."""
    configure(CONFIG)
    return running


@pytest.fixture
def user() -> str:
    return f"user-{uuid.uuid4()}"


@pytest.fixture
def client(server: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{server}/v1",
        api_key="unused",
        max_retries=0,
        timeout=60,
        # Reading the unused certificates takes longer than the test.
        http_client=openai.DefaultHttpxClient(verify=False),
    ) as client:
        yield client


@pytest.fixture
async def async_client(server: str):
    async with openai.AsyncOpenAI(
        base_url=f"{server}/v1", api_key="unused", max_retries=0, timeout=60
    ) as client:
        yield client


async def serve_on(listener: socket.socket, server: uvicorn.Server) -> None:
    """Serve until `server.should_exit` is set, then close all connections.

    Open connections would be left to the garbage collector, whose warnings would fail
    the test that runs then.
    """
    await server.serve(sockets=[listener])
    for client in [*server.server_state.connections]:
        client.transport.abort()
    await asyncio.sleep(0.01)


@contextlib.contextmanager
def serve(
    application: Any,
    *,
    grace_seconds: int = 2,
    limits: ConnectionLimits = DEFAULT_LIMITS,
) -> Iterator[str]:
    """Serve an ASGI application as a web process does, in a thread, on a free port."""
    # With the protocol named, asyncio sets TCP_NODELAY: small responses leave at once.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            lifespan="on",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=grace_seconds,
            **protocol_options(limits),
        )
    )
    started = threading.Event()
    original = server.startup

    async def startup(sockets=None) -> None:
        await original(sockets=sockets)
        started.set()

    server.startup = startup
    thread = threading.Thread(
        target=lambda: asyncio.run(serve_on(listener, server)), daemon=True
    )
    thread.start()
    try:
        assert started.wait(TIMEOUT_SECONDS), "the server did not start"
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(TIMEOUT_SECONDS)
        listener.close()
    # Its watchers would run on in later tests.
    assert not thread.is_alive(), "the server did not stop"
