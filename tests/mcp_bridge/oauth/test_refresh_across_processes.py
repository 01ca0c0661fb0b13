"""Refreshes and registrations happen once across processes and event loops."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings
from django.db import connection

from mcp_bridge.oauth import token_manager
from mcp_bridge.oauth.authorization_server import http_requests
from tests.mcp_bridge.conftest import TEST_SECONDS, wait_until
from tests.mcp_bridge.oauth.sign_in_process import authorization_parameters, new_user

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

SOON = 30
"""A token that expires this soon is refreshed before use."""


def refreshes(scripted):
    forms = scripted.received("/token")
    return [form for form in forms if form["grant_type"] == "refresh_token"]


async def received(scripted, path, number=1):
    assert await wait_until(lambda: len(scripted.received(path)) >= number)


@pytest.fixture(autouse=True)
def _long_refresh_timeout(monkeypatch):
    """Wait for other processes as long as needed."""
    monkeypatch.setattr(token_manager, "TIMEOUT_SECONDS", TEST_SECONDS)


@pytest.fixture
async def user(process, scripted):
    user = new_user()
    scripted.answer("/token", scripted.tokens(expires_in=SOON))
    await process.connect("notes", user)
    scripted.answer("/token", scripted.tokens(access_token="access-2"))
    scripted.hang("/token")
    return user


async def start_process(scripted, user):
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.mcp_bridge.oauth.refresh_script",
        str(connection.settings_dict["NAME"]),
        str(settings.COULISSE_SECRETS_FILE),
        scripted.url,
        str(user),
        stdin=PIPE,
        stdout=PIPE,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "coulisse_site.settings"},
    )


async def test_parallel_processes_refresh_once(scripted, user):
    both = await asyncio.gather(*(start_process(scripted, user) for _ in range(2)))
    for each in both:
        assert await each.stdout.readline() == b"ready\n"
    for each in both:
        each.stdin.write(b"\n")
    await received(scripted, "/token", 2)  # The first was the sign-in.
    await asyncio.sleep(0.1)  # For the other, which must wait.
    scripted.released.set()
    outputs = [(await each.communicate())[0] for each in both]
    assert outputs == [b"access-2\n"] * 2
    assert len(refreshes(scripted)) == 1


def run_in_two_loops(work):
    """Run the same work in two event loops at once; return both results."""
    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(lambda: asyncio.run(work())) for _ in range(2)]
        return [each.result(TEST_SECONDS) for each in both]


async def test_parallel_event_loops_refresh_once(process, scripted, user):
    both = asyncio.to_thread(run_in_two_loops, lambda: process.token("notes", user))
    working = asyncio.create_task(both)
    await received(scripted, "/token", 2)
    await asyncio.sleep(0.1)
    scripted.released.set()
    assert await working == ["access-2"] * 2
    assert len(refreshes(scripted)) == 1


async def test_parallel_event_loops_register_once(process, scripted):
    scripted.hang("/register")
    both = asyncio.to_thread(
        run_in_two_loops, lambda: process.open_link("notes", new_user())
    )
    working = asyncio.create_task(both)
    await received(scripted, "/register")
    await asyncio.sleep(0.1)
    scripted.released.set()
    first, second = await working
    assert (
        authorization_parameters(first)["client_id"]
        == authorization_parameters(second)["client_id"]
    )


async def test_local_addresses_bypass_the_proxy(process, scripted, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    redirect = await process.open_link("notes", new_user())
    # The server was asked: it has registered a client.
    assert authorization_parameters(redirect)["client_id"]
    assert len(scripted.received("/register")) == 1


async def test_other_addresses_use_the_proxy(scripted, monkeypatch):
    monkeypatch.setenv("http_proxy", scripted.url)
    http = http_requests.OAuthHttpClient()
    response = await http.get("notes", "http://elsewhere.example/unknown")
    assert response.status == 404  # From the server that plays the proxy.
