"""Discovery of authorization servers."""

import pytest

from database import database_executor
from mcp_bridge.models import McpToken
from mcp_bridge.oauth.errors import (
    AuthServerReplyInvalid,
    AuthServerTimedOut,
    AuthServerUnreachable,
)
from tests.mcp_bridge.oauth.scripted_oauth_server import ISSUER, OPENID, RESOURCE
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


async def test_slow_provider_times_out(scripted, database, user):
    process = SignInProcess(configured(notes={"url": scripted.url}), seconds=0.05)
    scripted.hang(ISSUER)
    with pytest.raises(
        AuthServerTimedOut, match=r"did not answer within 0\.05 seconds"
    ):
        await process.open_link("notes", user)


async def test_unavailable_provider_is_unreachable(database, user):
    process = SignInProcess(configured(notes={"url": "http://127.0.0.1:9/mcp"}))
    with pytest.raises(AuthServerUnreachable):
        await process.open_link("notes", user)


async def test_oversized_metadata_is_refused(process, scripted, user):
    scripted.answer(ISSUER, b" " * (1024 * 1024 + 1))
    with pytest.raises(AuthServerReplyInvalid, match="more than 1048576 bytes"):
        await process.open_link("notes", user)


async def test_www_authenticate_names_the_metadata_url(process, scripted, user):
    elsewhere = f"{scripted.origin}/meta"
    header = f'Bearer realm="x", resource_metadata="{elsewhere}", scope="a b"'
    scripted.answer("/mcp", {}, status=401, WWW_Authenticate=header)
    scripted.answer(f"{RESOURCE}/mcp", b"not this one")
    user_ids = {"resource": scripted.url, "authorization_servers": [scripted.origin]}
    scripted.answer("/meta", user_ids)
    assert (
        authorization_parameters(await process.open_link("notes", user))["scope"]
        == "a b"
    )
    assert scripted.received(f"{RESOURCE}/mcp") == []


async def test_server_without_metadata_is_its_own_issuer(process, scripted, user):
    scripted.answer(f"{RESOURCE}/mcp", {}, status=404)
    await process.connect("notes", user)
    assert len(scripted.received(RESOURCE)) == 1


async def test_openid_configuration_is_accepted(process, scripted, user):
    scripted.answer(ISSUER, {}, status=404)
    scripted.answer(OPENID, scripted.metadata(scopes_supported=["openid", "notes"]))
    assert (
        authorization_parameters(await process.open_link("notes", user))["scope"]
        == "openid notes"
    )


async def test_scopes_of_the_yaml_take_precedence(scripted, database, user):
    oauth = {"scopes": ["read", "write"]}
    process = SignInProcess(configured(notes={"url": scripted.url, "oauth": oauth}))
    scripted.answer(ISSUER, scripted.metadata(scopes_supported=["all"]))
    assert (
        authorization_parameters(await process.open_link("notes", user))["scope"]
        == "read write"
    )
    await process.complete_sign_in("notes", await process.open_link("notes", user))
    row = await database_executor.run(McpToken.objects.get, user_id=user)
    assert row.scopes == "read write"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"issuer": "https://evil.example"}, "names the issuer"),
        ({"registration_endpoint": None}, "does not support dynamic client"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"token_endpoint": "http://evil.example/token"}, "must be https"),
        ({"authorization_endpoint": "http://evil.example/x"}, "must be https"),
        ({"token_endpoint_auth_methods_supported": ["tls"]}, "supports none of"),
        ({"token_endpoint": "javascript:alert(1)"}, "publishes no OAuth metadata"),
        ({"token_endpoint": None}, "publishes no OAuth metadata"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_unsuitable_metadata_is_refused(
    process, scripted, user, changes, message
):
    scripted.answer(ISSUER, scripted.metadata(**changes))
    with pytest.raises(AuthServerReplyInvalid, match=message):
        await process.open_link("notes", user)


async def test_metadata_of_another_server_is_refused(process, scripted, user):
    other = {
        "resource": "https://other.example/mcp",
        "authorization_servers": [scripted.origin],
    }
    scripted.answer(f"{RESOURCE}/mcp", other)
    with pytest.raises(
        AuthServerReplyInvalid, match=r"describes https://other\.example"
    ):
        await process.open_link("notes", user)
