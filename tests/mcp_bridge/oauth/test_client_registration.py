"""Client registrations: dynamic and static."""

import pytest

from database import database_executor
from mcp_bridge.models import McpClient
from mcp_bridge.oauth.errors import (
    AuthServerRefused,
    AuthServerReplyInvalid,
)
from tests.mcp_bridge.oauth.scripted_oauth_server import ISSUER
from tests.mcp_bridge.oauth.sign_in_process import (
    SignInProcess,
    authorization_parameters,
    configured,
    new_user,
)

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture
def user():
    return new_user()


async def test_forgotten_client_is_registered_again(process, scripted, user):
    scripted.answer("/token", {"error": "invalid_client"}, status=401)
    redirect = await process.open_link("notes", user)
    with pytest.raises(AuthServerRefused):
        await process.complete_sign_in("notes", redirect)
    scripted.answer("/register", {"client_id": "app-2"}, status=201)
    assert (
        authorization_parameters(await process.open_link("notes", user))["client_id"]
        == "app-2"
    )


@pytest.mark.parametrize(
    ("status", "body", "failure"),
    [
        (400, {"error": "invalid_redirect_uri"}, AuthServerRefused),
        (403, b"<html>", AuthServerRefused),
        (201, b"not JSON", AuthServerReplyInvalid),
        (201, {"client_secret": "s"}, AuthServerReplyInvalid),
    ],
)
async def test_failed_registration_is_reported(
    process, scripted, user, status, body, failure
):
    scripted.answer("/register", body, status=status)
    with pytest.raises(failure):
        await process.open_link("notes", user)


async def test_registration_is_stored_with_encrypted_secret(process, scripted, user):
    await process.open_link("notes", user)
    await SignInProcess(process.config).open_link(
        "notes", new_user()
    )  # Another process.
    assert len(scripted.received("/register")) == 1
    rows = McpClient.objects.filter(resource=scripted.url)
    row = await database_executor.run(rows.get)
    assert b"app-secret" not in bytes(row.client_secret)
    assert "app-secret" not in str(row.metadata)


async def test_expiring_client_secret_is_replaced(process, scripted, user):
    expires_at = int(process.clock().timestamp()) + 3600
    registered = {
        "client_id": "app-1",
        "client_secret": "s",
        "client_secret_expires_at": expires_at,
    }
    scripted.answer("/register", registered, status=201)
    await process.open_link("notes", user)
    scripted.answer("/register", {"client_id": "app-2"}, status=201)
    assert (
        authorization_parameters(await process.open_link("notes", user))["client_id"]
        == "app-1"
    )
    process.clock.forward(minutes=50)
    assert (
        authorization_parameters(await process.open_link("notes", user))["client_id"]
        == "app-2"
    )


async def test_moved_endpoints_are_found_within_a_day(process, scripted, user):
    await process.open_link("notes", user)
    moved = f"{scripted.origin}/consent"
    scripted.answer(ISSUER, scripted.metadata(authorization_endpoint=moved))
    process.clock.forward(hours=25)
    assert (await process.open_link("notes", user)).url.startswith(f"{moved}?")
    assert len(scripted.received("/register")) == 1


def static(scripted, **changes):
    oauth = {
        "mode": "static",
        "authorization_url": f"{scripted.origin}/authorize?tenant=1",
        "token_url": f"{scripted.origin}/token",
        "client_id": "mine",
        "client_secret": "mine-secret",
        "redirect_uri": "https://me.example/base/mcp/notes/oauth/callback",
        "scopes": ["read"],
        **changes,
    }
    return SignInProcess(configured(notes={"url": scripted.url, "oauth": oauth}))


async def test_static_client_needs_no_discovery(scripted, database, user):
    process = static(scripted)
    link = process.token_manager.link(process.config, "notes", user)
    assert link.startswith("https://me.example/base/mcp/notes/connect?token=")
    parameters = authorization_parameters(await process.connect("notes", user))
    assert parameters["tenant"] == "1"
    assert (parameters["client_id"], parameters["scope"]) == ("mine", "read")
    assert "resource" not in parameters
    assert await process.token("notes", user) == "access-1"
    assert {path for _, path, *_ in scripted.requests} == {"/token"}
    process.clock.forward(seconds=3590)
    scripted.answer("/token", scripted.tokens(access_token="access-2"))
    assert await process.token("notes", user) == "access-2"


async def test_client_secret_is_not_sent_over_plain_http(scripted, database, user):
    process = static(scripted, token_url="http://auth.example/token")
    with pytest.raises(AuthServerReplyInvalid, match="must be https"):
        await process.open_link("notes", user)
