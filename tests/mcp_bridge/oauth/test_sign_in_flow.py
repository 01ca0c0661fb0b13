"""Sign-ins against a real authorization server."""

import asyncio

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from database import database_executor
from mcp_bridge.models import McpToken
from tests.mcp_bridge.oauth.sign_in_process import (
    SignInProcess,
    authorization_parameters,
    configured,
    new_user,
    parse_callback,
)

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture
def real(protected) -> SignInProcess:
    return SignInProcess(configured(notes={"url": protected.url}))


async def sign_in(process: SignInProcess, protected, user, *, subject: str) -> None:
    protected.provider.subject = subject
    redirect = await process.open_link("notes", user)
    back = await asyncio.to_thread(protected.consent, redirect.url)
    assert back.startswith("http://localhost:8421/mcp/notes/oauth/callback?")
    cookies = {redirect.cookie: "browser"}
    await process.flow.finish(
        process.config, "notes", parse_callback(back), cookies=cookies
    )


async def whoami(protected, token: str) -> str:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=10, verify=False) as http,
        Client(streamable_http_client(protected.url, http_client=http)) as client,
    ):
        return (await client.call_tool("whoami", {})).content[0].text


async def test_each_user_has_a_separate_token(real, protected):
    ann, bob = new_user(), new_user()
    assert await real.token("notes", ann) is None
    await sign_in(real, protected, ann, subject="ann")
    assert await real.token("notes", bob) is None
    await sign_in(real, protected, bob, subject="bob")
    tokens = [await real.token("notes", user) for user in (ann, bob)]
    assert tokens[0] != tokens[1]
    assert [await whoami(protected, token) for token in tokens] == ["ann", "bob"]
    assert await real.token_manager.connection_states(real.config, ann) == {
        "notes": True
    }


async def test_all_users_share_one_registration(real, protected):
    protected.provider.forget_clients()
    users = [new_user() for _ in range(5)]
    departures = await asyncio.gather(*(real.open_link("notes", u) for u in users))
    assert (
        len({authorization_parameters(each)["client_id"] for each in departures}) == 1
    )
    assert len(protected.provider.clients) == 1


async def test_parallel_registrations_share_one_client(real, protected):
    others = SignInProcess(real.config)
    first, second = await asyncio.gather(
        real.open_link("notes", new_user()), others.open_link("notes", new_user())
    )
    assert (
        authorization_parameters(first)["client_id"]
        == authorization_parameters(second)["client_id"]
    )


async def test_token_is_renewed_before_it_expires(real, protected, monkeypatch):
    user = new_user()
    await sign_in(real, protected, user, subject="ann")
    first = await real.token("notes", user)
    real.clock.forward(seconds=3600 - 61)
    assert await real.token("notes", user) == first
    real.clock.forward(seconds=2)
    second = await real.token("notes", user)
    assert second != first
    assert await whoami(protected, second) == "ann"


async def test_refused_token_is_renewed_once_for_all_callers(real, protected):
    user, before = new_user(), protected.provider.refreshes
    await sign_in(real, protected, user, subject="ann")
    refused = await real.token("notes", user)
    others = SignInProcess(real.config)  # Another process.
    renewed = await asyncio.gather(
        *(
            each.token_manager.renew(real.config, "notes", user, refused)
            for each in [real, others] * 5
        )
    )
    assert len(set(renewed)) == 1
    assert renewed[0] not in (None, refused)
    assert protected.provider.refreshes == before + 1


async def test_renewal_survives_the_callers_cancellation(real, protected):
    user = new_user()
    await sign_in(real, protected, user, subject="ann")
    refused = await real.token("notes", user)
    asking = asyncio.create_task(
        real.token_manager.renew(real.config, "notes", user, refused)
    )
    # Each time the event loop goes round: it is over within a few milliseconds.
    while not real.token_manager._refresher._running:
        assert not asking.done()
        await asyncio.sleep(0)
    asking.cancel()
    await real.token_manager.close()
    renewed = await real.token("notes", user)
    assert renewed != refused
    assert await whoami(protected, renewed) == "ann"


async def test_disconnect_revokes_the_tokens(real, protected):
    user = new_user()
    await sign_in(real, protected, user, subject="ann")
    token = await real.token("notes", user)
    assert await real.token_manager.disconnect(real.config, "notes", user)
    assert token in protected.provider.revoked
    assert await real.token("notes", user) is None
    assert not await real.token_manager.disconnect(real.config, "notes", user)
    assert await real.token_manager.connection_states(real.config, user) == {
        "notes": False
    }


async def test_forgotten_client_is_registered_again(real, protected):
    user = new_user()
    await sign_in(real, protected, user, subject="ann")
    protected.provider.forget_clients()
    real.clock.forward(minutes=6)
    await sign_in(real, protected, user, subject="bob")
    assert await whoami(protected, await real.token("notes", user)) == "bob"


async def test_reconnect_replaces_the_tokens(real, protected):
    user = new_user()
    await sign_in(real, protected, user, subject="ann")
    await sign_in(real, protected, user, subject="anna")
    assert await whoami(protected, await real.token("notes", user)) == "anna"
    assert await database_executor.run(McpToken.objects.filter(user_id=user).count) == 1
