"""The stage: a scripted provider, the real server over real HTTP, official clients."""

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
from pathlib import Path
from typing import Any

import httpcore2
import openai
import pytest
import uvicorn
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
from processes.http_server.connections import ConnectionLimits
from processes.http_server.protocol import protocol_options
from providers import sync_bridge
from providers.transport import endpoint_pool
from studio.server import event_loop_bridge
from testing.scripted_provider import FakeProvider
from tests import tiers

NAMESPACE = uuid.UUID("9b0f5c1e-3c5e-4f43-8a57-2f6d1c0f7e91")
"""Of the users of all tests."""

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

# How busy the machine is says nothing about what is tested.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

PATIENCE_SECONDS = 60.0
"""How long is waited for what comes, if nothing is wrong, at once."""
HOUR, NEARLY = 3600, 15
FAKES = 8
DEFAULT_LIMITS = ConnectionLimits()


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Mark and order the tests as `tests/tiers.py` lists them."""
    for item in items:
        if tiers.is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)
        if tiers.is_sqlite_only(item.nodeid):
            item.add_marker(pytest.mark.sqlite_only)
    items.sort(key=lambda item: tiers.rank(item.nodeid))


class ByScope(LoadFileScheduling):
    """Give each worker whole files, and all of the browser's to one."""

    def _split_scope(self, nodeid: str) -> str:
        return tiers.scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByScope | None:
    """Distribute as above, where `--dist loadfile` asks for it."""
    is_by_file = config.getvalue("dist") == "loadfile"
    return ByScope(config, log) if is_by_file else None


def pytest_sessionstart() -> None:
    """Collect no garbage while modules are imported: there is none."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep the garbage collector off ten thousand tests and all that is imported."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def database(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker
) -> Iterator[None]:
    """The tables, for the whole run: tests keep apart by users of their own."""
    if connection.vendor == "sqlite":
        # In a file, for the server's threads share it.
        name = str(tmp_path_factory.mktemp("database") / "test.db")
    else:
        name = f"test_coulisse_{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
    connection.settings_dict["TEST"]["NAME"] = name
    with django_db_blocker.unblock():
        made = setup_databases(
            verbosity=0,
            interactive=False,
            # Nothing is put back between tests, so nothing need be read for it.
            serialized_aliases=[],
        )
        user_namespace._record(NAMESPACE)
        yield
        if connection.vendor == "postgresql":
            end_other_connections()
        teardown_databases(made, verbosity=0)


def end_other_connections() -> None:
    """End those the database lane keeps for life: a database in use stays."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.fixture(scope="session", autouse=True)
def _fixed_user_namespace() -> Iterator[None]:
    """Tests, and the processes they start, derive users' ids in one namespace."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(USER_NAMESPACE, str(NAMESPACE))
        patch.setattr(user_namespace, "_established", NAMESPACE)
        yield


@pytest.fixture(scope="session", autouse=True)
def _certificates_read_once() -> Iterator[None]:
    """To read them for each client costs more than most tests."""
    read = functools.cache(httpcore2.default_ssl_context)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", read)
        yield


@pytest.fixture(scope="session", autouse=True)
def _yaml_scanned_once() -> Iterator[None]:
    """The server remembers few texts; tests come back to many."""
    remembered = functools.lru_cache(maxsize=256)(scanner.compose)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_compose_cached", remembered)
        yield


@pytest.fixture(scope="session", autouse=True)
def _keys_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The keys of users' sign-ins are made beside nobody's YAML."""
    path = tmp_path_factory.mktemp("keys") / "secrets.env"
    with override_settings(COULISSE_SECRETS_FILE=path):
        yield


@pytest.fixture(scope="session", autouse=True)
def _nobody_is_waited_for_within_a_transaction() -> Iterator[None]:
    """On SQLite all others would wait for the provider, too."""

    def watched(wait: Callable[..., Any]) -> Callable[..., Any]:
        def watch(
            coroutine: Coroutine[Any, Any, Any], *args: Any, **kwargs: Any
        ) -> Any:
            if connection.in_atomic_block:
                coroutine.close()
                pytest.fail("a provider is waited for within a transaction")
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
    """Begin no test as an hour ends, and with it a day or a month.

    What is counted by them would be counted in two, which is right.
    """
    rest = HOUR - time.time() % HOUR
    if rest < NEARLY:
        time.sleep(rest)


@pytest.fixture(autouse=True)
def _no_failed_logins() -> None:
    """No test is delayed for what failed in another."""
    for throttle in (
        login_throttle.API_THROTTLE,
        login_throttle.CONSUMER_THROTTLE,
        login_throttle.STUDIO_THROTTLE,
    ):
        throttle.forget()


@pytest.fixture(autouse=True)
def _circuits_closed() -> None:
    """No test is refused a provider for what failed in another."""
    endpoint_pool.clear_pools()


@pytest.fixture(scope="session")
def fakes() -> Iterator[Iterator[FakeProvider]]:
    """Servers that tests take in turn.

    Their addresses stay, so the YAML of most tests has been parsed before. There are
    several, so that a late request of one test does not reach the next one's script.
    """
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(FakeProvider()) for _ in range(FAKES)]
        yield itertools.cycle(servers)


@pytest.fixture
def fake(fakes: Iterator[FakeProvider]) -> Iterator[FakeProvider]:
    """The provider every test agent talks to, with nothing scripted yet."""
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
        # Its watcher lives through all tests, and would put in force what it finds
        # in their directories and tables: it sees a file of its own alone.
        with override_settings(COULISSE_OVERLAYS=""):
            url = stack.enter_context(serve("coulisse_site.asgi:application"))
        yield url


@pytest.fixture
def configure(
    running: str, fake: FakeProvider, tmp_path: Path
) -> Callable[[str], None]:
    """Return a function that gives the running server another YAML."""

    def configure(text: str) -> None:
        path = tmp_path / "coulisse.yaml"
        path.write_text(text.replace("{fake}", fake.root_url))
        live.set_current(loader.load_file(path))

    return configure


@pytest.fixture
def server(running: str, configure: Callable[[str], None]) -> str:
    """The server's URL, with the standard configuration and nothing scripted."""
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
        # Reading the certificates nobody needs here costs more than the test.
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
    """Serve until the server is told to exit, and leave no connection open.

    A process would end with them. Here they would be left to the garbage collector,
    which warns of them in whichever test runs then.
    """
    await server.serve(sockets=[listener])
    for open_one in [*server.server_state.connections]:
        open_one.transport.abort()
    await asyncio.sleep(0.01)


@contextlib.contextmanager
def serve(
    application: Any,
    *,
    grace_seconds: int = 2,
    limits: ConnectionLimits = DEFAULT_LIMITS,
) -> Iterator[str]:
    """Serve an ASGI application as a web process does, in a thread, on a free port."""
    # Of the protocol by name: only so does asyncio send small answers at once.
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
        assert started.wait(PATIENCE_SECONDS), "the server did not start"
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)
        listener.close()
    # Else its watchers would go on in the tests to come.
    assert not thread.is_alive(), "the server did not stop"
