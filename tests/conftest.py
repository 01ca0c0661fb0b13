"""The stage: a scripted provider, the real server over real HTTP, official clients."""

import asyncio
import contextlib
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import openai
import pytest
import uvicorn
from django.conf import settings
from providers.fake import FakeProvider

from config import live, loader

CONFIG = """
providers:
  openai:
    api_key: sk-openai-secret
    base_url: {fake}/v1
    retries: 0
  anthropic:
    api_key: sk-anthropic-secret
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


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Put the SQLite test database in a file: the server's threads share it."""
    if "sqlite3" in settings.DATABASES["default"]["ENGINE"]:
        path = tmp_path_factory.mktemp("database") / "test.db"
        settings.DATABASES["default"]["TEST"] = {"NAME": str(path)}


@pytest.fixture(scope="session")
def database(django_db_setup: None, django_db_blocker) -> Iterator[None]:
    """The tables, for the whole run: tests keep apart by users of their own."""
    with django_db_blocker.unblock():
        yield


@pytest.fixture(scope="session")
def scripted() -> Iterator[FakeProvider]:
    with FakeProvider() as provider:
        yield provider


@pytest.fixture
def fake(scripted: FakeProvider) -> FakeProvider:
    """The provider every test agent talks to, with nothing scripted yet."""
    scripted.reset()
    return scripted


@pytest.fixture(scope="session")
def config_path(
    tmp_path_factory: pytest.TempPathFactory, scripted: FakeProvider
) -> Path:
    path = tmp_path_factory.mktemp("project") / "coulisse.yaml"
    path.write_text(CONFIG.format(fake=scripted.base_url.removesuffix("/v1")))
    return path


@pytest.fixture(scope="session")
def running(config_path: Path, database: None) -> Iterator[str]:
    """The real application under uvicorn; yields its URL."""
    settings.COULISSE_CONFIG = config_path
    live.replace(loader.load(config_path))
    with serve("coulisse_site.asgi:application") as url:
        yield url


@pytest.fixture
def server(running: str, config_path: Path, fake: FakeProvider) -> str:
    """The server's URL, with the standard configuration and nothing scripted."""
    live.replace(loader.load(config_path))
    return running


@pytest.fixture
def configure(server: str, fake: FakeProvider, tmp_path: Path) -> Callable[[str], None]:
    """Return a function that gives the running server another YAML."""

    def configure(text: str) -> None:
        path = tmp_path / "coulisse.yaml"
        path.write_text(text.replace("{fake}", fake.base_url.removesuffix("/v1")))
        live.replace(loader.load(path))

    return configure


@pytest.fixture
def user() -> str:
    return f"user-{uuid.uuid4()}"


@pytest.fixture
def client(server: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{server}/v1", api_key="unused", max_retries=0, timeout=20
    ) as client:
        yield client


@pytest.fixture
async def async_client(server: str):
    async with openai.AsyncOpenAI(
        base_url=f"{server}/v1", api_key="unused", max_retries=0, timeout=20
    ) as client:
        yield client


@contextlib.contextmanager
def serve(application: str) -> Iterator[str]:
    """Serve an ASGI application from a thread, on a free port."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            lifespan="on",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=2,
        )
    )
    started = threading.Event()
    original = server.startup

    async def startup(sockets=None) -> None:
        await original(sockets=sockets)
        started.set()

    server.startup = startup
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True
    )
    thread.start()
    assert started.wait(20), "the server did not start"
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    listener.close()
