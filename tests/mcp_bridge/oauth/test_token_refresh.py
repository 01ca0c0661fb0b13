"""Token refreshes: shared, leased, and ended by the provider only."""

import asyncio
from datetime import timedelta

import pytest

from database import database_executor, retention
from mcp_bridge.models import McpToken, McpUsedLink
from mcp_bridge.oauth import token_manager
from mcp_bridge.oauth.crypto import secret_keys
from mcp_bridge.oauth.errors import SignInFailed
from tests.mcp_bridge.oauth.sign_in_process import (
    SignInProcess,
    configured,
    keys_in,
    new_user,
)

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture
async def user(process, scripted):
    """A connected user whose token is about to expire."""
    user = new_user()
    await process.connect("notes", user)
    process.clock.forward(seconds=3550)
    scripted.answer("/token", scripted.tokens(access_token="access-2"))
    return user


def row_of(user):
    return McpToken.objects.filter(user_id=user).first()


async def stored(user):
    return await database_executor.run(row_of, user)


def refreshes(scripted):
    forms = scripted.received("/token")
    return [form for form in forms if form["grant_type"] == "refresh_token"]


async def test_parallel_callers_share_one_refresh(process, scripted, user):
    others = SignInProcess(process.config, clock=process.clock)  # Another process.
    authorization_parameters = [
        each.token("notes", user) for each in [process, others] * 5
    ]
    assert set(await asyncio.gather(*authorization_parameters)) == {"access-2"}
    (form,) = refreshes(scripted)
    assert form["refresh_token"] == "refresh-1"
    assert form["resource"] == scripted.url


async def test_unreplaced_refresh_token_is_kept(process, scripted, user):
    scripted.answer("/token", scripted.tokens(refresh_token=None))
    for _ in range(2):
        await process.token("notes", user)
        process.clock.forward(seconds=3590)
    assert [each["refresh_token"] for each in refreshes(scripted)] == ["refresh-1"] * 2


async def test_replaced_refresh_token_is_used(process, scripted, user):
    scripted.answer("/token", scripted.tokens(refresh_token="refresh-2"))
    for _ in range(2):
        await process.token("notes", user)
        process.clock.forward(seconds=3590)
    used = [each["refresh_token"] for each in refreshes(scripted)]
    assert used == ["refresh-1", "refresh-2"]


@pytest.mark.parametrize("error", ["invalid_grant", "unauthorized_client"])
async def test_revoked_sign_in_is_disconnected(process, scripted, user, error):
    scripted.answer("/token", {"error": error}, status=400)
    assert await process.token("notes", user) is None
    assert await stored(user) is None
    assert await process.token_manager.connection_states(process.config, user) == {
        "notes": False
    }


async def test_client_forgotten_by_server_is_registered_again(process, scripted, user):
    scripted.answer("/token", {"error": "invalid_client"}, status=401)
    assert await process.token("notes", user) is None
    await process.open_link("notes", user)
    assert len(scripted.received("/register")) == 2


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_failing_provider_does_not_end_the_sign_in(
    process, scripted, user, status
):
    scripted.answer("/token", b"<html>", status=status)
    assert await process.token("notes", user) == "access-1"
    with pytest.raises(SignInFailed, match="try again in a minute") as caught:
        await process.token_manager.renew(process.config, "notes", user, "access-1")
    assert "127.0.0.1" not in caught.value.message
    scripted.answer("/token", scripted.tokens(access_token="access-3"))
    assert await process.token("notes", user) == "access-3"


async def test_slow_provider_does_not_end_the_sign_in(scripted, database):
    process, user = (
        SignInProcess(configured(notes={"url": scripted.url}), seconds=0.05),
        None,
    )
    user = new_user()
    await SignInProcess(process.config).connect("notes", user)
    process.clock.forward(seconds=3550)
    scripted.hang("/token")
    assert await process.token("notes", user) == "access-1"
    assert (await stored(user)).refresh_lease_until is None  # Who tries next may.
    process.clock.forward(seconds=60)
    ended = await process.token("notes", user)
    assert isinstance(ended, SignInFailed)
    assert "could not be renewed" in ended.detail
    assert await stored(user) is not None
    assert await process.token_manager.connection_states(process.config, user) == {
        "notes": True
    }


async def test_valid_token_is_returned_without_waiting(scripted, database, monkeypatch):
    monkeypatch.setattr(token_manager, "TIMEOUT_SECONDS", 0.02)
    process = SignInProcess(configured(notes={"url": scripted.url}))
    user = new_user()
    await process.connect("notes", user)
    process.clock.forward(seconds=3550)
    scripted.hang("/token")
    assert await process.token("notes", user) == "access-1"
    assert (await stored(user)).refresh_lease_until is not None  # It goes on.
    scripted.released.set()
    await process.token_manager.close()


async def test_expired_token_without_refresh_token_is_disconnected(process, scripted):
    user = new_user()
    scripted.answer("/token", scripted.tokens(refresh_token=None))
    await process.connect("notes", user)
    process.clock.forward(seconds=3599)
    assert await process.token("notes", user) == "access-1"
    process.clock.forward(seconds=2)
    assert await process.token("notes", user) is None
    assert await stored(user) is None
    assert refreshes(scripted) == []


async def test_refused_token_without_refresh_token_is_disconnected(process, scripted):
    user = new_user()
    scripted.answer("/token", scripted.tokens(refresh_token=None))
    await process.connect("notes", user)
    renewed = process.token_manager.renew(process.config, "notes", user, "access-1")
    assert await renewed is None
    assert await stored(user) is None


async def test_token_renewed_meanwhile_is_not_renewed_again(process, scripted, user):
    assert await process.token("notes", user) == "access-2"
    renewed = process.token_manager.renew(process.config, "notes", user, "access-1")
    assert await renewed == "access-2"
    assert len(refreshes(scripted)) == 1


async def test_lease_of_a_dead_process_expires(process, scripted, user):
    stored = await database_executor.run(
        McpToken.objects.by_server, user, {"notes": scripted.url}
    )
    until = process.clock() + timedelta(seconds=30)
    await database_executor.run(
        stored["notes"].acquire_refresh_lease,
        now=process.clock(),
        until=until,
    )
    process.clock.forward(seconds=31)
    assert await process.token("notes", user) == "access-2"


async def test_disconnect_during_a_refresh_is_final(process, scripted, user):
    found = await database_executor.run(
        McpToken.objects.by_server, user, {"notes": scripted.url}
    )
    await process.token_manager.disconnect(process.config, "notes", user)
    got = await process.token_manager._refresher._request_refresh(
        process.config, found["notes"]
    )
    assert got is None
    assert await stored(user) is None


async def test_reconnect_during_a_refresh_keeps_the_new_token(process, scripted, user):
    found = await database_executor.run(
        McpToken.objects.by_server, user, {"notes": scripted.url}
    )
    scripted.answer("/token", scripted.tokens(access_token="access-9"))
    await process.connect("notes", user)
    scripted.answer("/token", scripted.tokens(access_token="access-2"))
    assert (
        await process.token_manager._refresher._request_refresh(
            process.config, found["notes"]
        )
        is None
    )
    assert await process.token("notes", user) == "access-9"


# Tokens of users and servers.


async def test_token_is_not_sent_to_a_changed_address(process, scripted, user):
    moved = SignInProcess(configured(notes={"url": f"{scripted.url}/elsewhere"}))
    assert await moved.token("notes", user) is None
    assert await moved.token_manager.connection_states(moved.config, user) == {
        "notes": False
    }
    assert await moved.token_manager.disconnect(moved.config, "notes", user)
    assert await stored(user) is None


async def test_token_row_moved_to_another_user_is_unreadable(process, user):
    thief = new_user()
    await database_executor.run(
        McpToken.objects.filter(user_id=user).update, user_id=thief
    )
    assert await process.token("notes", thief) is None


async def test_token_row_contains_no_plain_secret(process, user):
    row = await stored(user)
    whole = repr(
        {
            name: bytes(v) if isinstance(v, memoryview) else v
            for name, v in vars(row).items()
        }
    )
    assert "access-1" not in whole
    assert "refresh-1" not in whole


async def test_changed_vault_key_requires_reconnect(process, scripted, user, tmp_path):
    with keys_in(tmp_path):
        assert await process.token("notes", user) is None
        assert await process.token_manager.connection_states(process.config, user) == {
            "notes": False
        }
        scripted.answer("/token", scripted.tokens(access_token="access-5"))
        await process.connect("notes", user)
        assert await process.token("notes", user) == "access-5"
    assert await process.token("notes", user) is None


async def test_missing_keys_do_not_fail_the_turn(process, user, monkeypatch):
    monkeypatch.setenv(secret_keys.VAULT_KEY, "broken")
    assert await process.token("notes", user) is None


async def test_servers_without_sign_in_need_no_query(process, scripted, monkeypatch):
    async def never(*_, **__):
        raise AssertionError("a trip")

    config = configured(open={"url": scripted.url, "oauth": False})
    monkeypatch.setattr(database_executor, "run", never)
    assert (
        await process.token_manager.tokens(config, ["open", "gone"], new_user()) == {}
    )
    assert await process.token_manager.connection_states(config, new_user()) == {
        "open": None
    }


async def test_tokens_of_all_servers_take_one_query(scripted, database, monkeypatch):
    process = SignInProcess(
        configured(a={"url": scripted.url}, b={"url": scripted.url})
    )
    user, trips = new_user(), []
    for name in ("a", "b"):
        await process.connect(name, user)
    run = database_executor.run

    async def counted(function, *args, **kwargs):
        trips.append(function.__name__)
        return await run(function, *args, **kwargs)

    monkeypatch.setattr(database_executor, "run", counted)
    got = await process.token_manager.tokens(process.config, ["a", "b"], user)
    assert got == {"a": "access-1", "b": "access-1"}
    assert trips == ["by_server"]


# Automatic deletion.


async def test_expired_used_links_are_deleted(process):
    now = process.clock()
    rows = McpUsedLink.objects.filter(nonce="old")
    await database_executor.run(McpUsedLink.objects.mark_used, "old", now)
    assert not await database_executor.run(McpUsedLink.objects.mark_used, "old", now)
    await database_executor.run(
        retention.delete_expired, McpUsedLink, now - timedelta(seconds=1)
    )
    assert await database_executor.run(rows.exists)
    await database_executor.run(retention.delete_expired, McpUsedLink, now)
    assert not await database_executor.run(rows.exists)


async def test_ended_sign_ins_are_deleted(process, scripted):
    renewable, ended = new_user(), new_user()
    await process.connect("notes", renewable)
    scripted.answer("/token", scripted.tokens(refresh_token=None))
    await process.connect("notes", ended)
    await database_executor.run(
        retention.delete_expired, McpToken, process.clock() + timedelta(hours=2)
    )
    assert await stored(ended) is None
    assert await stored(renewable) is not None
