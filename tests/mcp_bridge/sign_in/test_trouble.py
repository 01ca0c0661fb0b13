"""Providers that fail, lie or dawdle, and users who come back with the wrong thing."""

import asyncio

import pytest

from database import database_executor
from mcp_bridge.models import McpClient, McpToken
from mcp_bridge.oauth.errors import (
    AuthServerRefused,
    AuthServerReplyInvalid,
    AuthServerTimedOut,
    AuthServerUnreachable,
    BrowserMismatch,
    LinkExpired,
    LinkInvalid,
    LinkUsed,
    ServerUnknown,
    SignInFailed,
    UserMismatch,
)
from tests.mcp_bridge.sign_in.scripted import ISSUER, OPENID, RESOURCE
from tests.mcp_bridge.sign_in.users import Stage, asked, configured, new_user

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture
def user():
    return new_user()


# Links.


async def test_link_works_once(stage, user):
    token = stage.link_token("notes", user)
    await stage.connecting.use_link(stage.config, "notes", token, browser="b")
    with pytest.raises(LinkUsed):
        await stage.connecting.use_link(stage.config, "notes", token, browser="b")


async def test_parallel_opens_of_a_link_allow_one(stage, user):
    token = stage.link_token("notes", user)
    opened = await asyncio.gather(
        *(
            stage.connecting.use_link(stage.config, "notes", token, browser="b")
            for _ in range(4)
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(each, LinkUsed) for each in opened) == 3


async def test_looking_at_a_link_does_not_use_it(stage, user):
    token = stage.link_token("notes", user)
    assert (
        await stage.connecting.read_link(stage.config, "notes", token)
    ).user_id == user
    await stage.connecting.use_link(stage.config, "notes", token, browser="b")


async def test_link_expires(stage, user):
    token = stage.link_token("notes", user)
    stage.clock.forward(minutes=9, seconds=58)
    await stage.connecting.read_link(stage.config, "notes", token)
    stage.clock.forward(seconds=3)
    with pytest.raises(LinkExpired):
        await stage.connecting.read_link(stage.config, "notes", token)


async def test_link_does_not_contain_the_user_id(stage, user):
    link = stage.sign_ins.link(stage.config, "notes", user)
    assert user.hex not in link
    assert str(user) not in link
    assert link.startswith("http://localhost:8421/mcp/notes/connect?token=")


@pytest.mark.parametrize("place", [0, 11, 12, 40, -1])
async def test_altered_link_is_refused(stage, user, place):
    token = stage.link_token("notes", user)
    other = "A" if token[place] != "A" else "B"
    altered = token[:place] + other + (token[place + 1 :] if place >= 0 else "")
    with pytest.raises(LinkInvalid):
        await stage.connecting.read_link(stage.config, "notes", altered)


@pytest.mark.parametrize("token", ["", "x", "é", "=" * 40, "A" * 5000, "AAAA\n" * 9])
async def test_invalid_link_is_refused(stage, token):
    with pytest.raises(LinkInvalid):
        await stage.connecting.read_link(stage.config, "notes", token)


async def test_link_works_for_its_server_only(scripted, database, user):
    stage = Stage(configured(a={"url": scripted.url}, b={"url": scripted.url}))
    with pytest.raises(LinkInvalid):
        await stage.connecting.read_link(stage.config, "b", stage.link_token("a", user))


async def test_link_and_state_are_not_interchangeable(stage, user):
    departure = await stage.leave("notes", user)
    with pytest.raises(LinkInvalid):
        await stage.connecting.read_link(
            stage.config, "notes", asked(departure)["state"]
        )
    token = stage.link_token("notes", user)
    with pytest.raises(LinkInvalid):
        await stage.come_back("notes", departure, state=token)


async def test_link_of_another_user_is_refused_and_stays_valid(stage, user):
    token = stage.link_token("notes", user)
    opening = {"token": token, "browser": "b"}
    with pytest.raises(UserMismatch):
        await stage.connecting.use_link(
            stage.config, "notes", **opening, named=[user, new_user()]
        )
    await stage.connecting.use_link(stage.config, "notes", **opening, named=[user])


async def test_link_for_unknown_server_is_refused(stage, user):
    token = stage.link_token("notes", user)
    with pytest.raises(ServerUnknown):
        await stage.connecting.read_link(stage.config, "gone", token)


async def test_link_stays_valid_when_the_provider_fails(stage, scripted, user):
    token = stage.link_token("notes", user)
    scripted.answer(ISSUER, {}, status=503)
    with pytest.raises(SignInFailed):
        await stage.connecting.use_link(stage.config, "notes", token, browser="b")
    scripted.answer(ISSUER, scripted.metadata())
    await stage.connecting.use_link(stage.config, "notes", token, browser="b")


# Coming back.


async def test_callback_stores_the_token(stage, scripted, user):
    departure = await stage.connect("notes", user)
    assert await stage.token("notes", user) == "access-1"
    question = asked(departure)
    assert question["code_challenge_method"] == "S256"
    assert question["resource"] == scripted.url
    (form,) = scripted.heard("/token")
    assert form["client_secret"] == "app-secret"
    assert form["resource"] == scripted.url
    assert form["redirect_uri"] == question["redirect_uri"]
    assert len(form["code_verifier"]) >= 43


async def test_state_works_once(stage, user):
    departure = await stage.connect("notes", user)
    with pytest.raises(LinkUsed):
        await stage.come_back("notes", departure)


@pytest.mark.parametrize("cookies", [{}, {"coulisse-sign-in": "browser"}])
async def test_callback_from_another_browser_is_refused(stage, user, cookies):
    """Somebody else is sent the provider's address, and consents there."""
    departure = await stage.leave("notes", user)
    with pytest.raises(BrowserMismatch):
        await stage.come_back("notes", departure, cookies=cookies)
    with pytest.raises(BrowserMismatch):
        await stage.come_back("notes", departure, cookies={departure.cookie: "x"})
    assert await stage.token("notes", user) is None
    await stage.come_back("notes", departure)  # Who did leave still can.


async def test_invalid_state_is_refused(stage, user):
    departure = await stage.leave("notes", user)
    state = asked(departure)["state"]
    for bad in ("", state[:-1], state[::-1]):
        with pytest.raises(LinkInvalid):
            await stage.come_back("notes", departure, state=bad)
    stage.clock.forward(minutes=11)
    with pytest.raises(LinkExpired):
        await stage.come_back("notes", departure)


async def test_declined_consent_leaves_user_disconnected(stage, scripted, user):
    departure = await stage.leave("notes", user)
    refusal = {"code": None, "error": "access_denied", "description": "No\n<b>way</b>"}
    with pytest.raises(AuthServerRefused) as caught:
        await stage.come_back("notes", departure, **refusal)
    assert caught.value.error == "access_denied"
    assert caught.value.description == "No <b>way</b>"
    assert scripted.heard("/token") == []
    assert await stage.token("notes", user) is None


async def test_callback_without_code_is_refused(stage, user):
    departure = await stage.leave("notes", user)
    with pytest.raises(AuthServerReplyInvalid, match="no authorization code"):
        await stage.come_back("notes", departure, code=None)


async def test_callback_of_another_issuer_is_refused(stage, scripted, user):
    departure = await stage.leave("notes", user)
    with pytest.raises(AuthServerReplyInvalid, match="is not from"):
        await stage.come_back("notes", departure, issuer="https://evil.example")
    assert scripted.heard("/token") == []
    departure = await stage.leave("notes", user)
    await stage.come_back("notes", departure, issuer=scripted.origin)


async def test_missing_required_issuer_is_refused(stage, scripted, user):
    named = {"authorization_response_iss_parameter_supported": True}
    scripted.answer(ISSUER, scripted.metadata(**named))
    departure = await stage.leave("notes", user)
    with pytest.raises(AuthServerReplyInvalid, match="is not from"):
        await stage.come_back("notes", departure)


# What the token endpoint says.


@pytest.mark.parametrize(
    "body",
    [
        *(b"not JSON", b"", b"[]", b"null", b"\xff\xfe"),
        *({}, {"access_token": ""}, {"access_token": 5}),
        {"access_token": "a\r\nX-Evil: 1"},
        {"access_token": "a b"},
        {"access_token": "x" * 20_000},
        {"access_token": "a", "token_type": "mac"},
        {"access_token": "a", "expires_in": "soon"},
    ],
    ids=lambda body: str(body)[:30],
)
async def test_invalid_token_response_is_refused(stage, scripted, user, body):
    scripted.answer("/token", body)
    departure = await stage.leave("notes", user)
    with pytest.raises(AuthServerReplyInvalid) as caught:
        await stage.come_back("notes", departure)
    assert "x" * 100 not in str(caught.value)
    assert await stage.token("notes", user) is None


@pytest.mark.parametrize("status", [200, 400, 401, 500])
async def test_token_error_shows_the_providers_description(
    stage, scripted, user, status
):
    error = {"error": "invalid_grant", "error_description": "that code is\x07 old"}
    scripted.answer("/token", error, status=status)
    departure = await stage.leave("notes", user)
    with pytest.raises(AuthServerRefused) as caught:
        await stage.come_back("notes", departure)
    assert caught.value.description == "that code is old"


async def test_token_can_have_no_expiry(stage, scripted, user):
    scripted.answer("/token", scripted.tokens(expires_in=None, refresh_token=None))
    await stage.connect("notes", user)
    stage.clock.forward(days=400)
    assert await stage.token("notes", user) == "access-1"


async def test_token_endpoint_redirect_is_not_followed(stage, scripted, user):
    scripted.answer("/token", {}, status=307, Location=f"{scripted.origin}/other")
    departure = await stage.leave("notes", user)
    with pytest.raises(SignInFailed):
        await stage.come_back("notes", departure)
    assert scripted.heard("/other") == []


async def test_forgotten_client_is_registered_again(stage, scripted, user):
    scripted.answer("/token", {"error": "invalid_client"}, status=401)
    departure = await stage.leave("notes", user)
    with pytest.raises(AuthServerRefused):
        await stage.come_back("notes", departure)
    scripted.answer("/register", {"client_id": "app-2"}, status=201)
    assert asked(await stage.leave("notes", user))["client_id"] == "app-2"


# Slow, down, too large.


async def test_slow_provider_times_out(scripted, database, user):
    stage = Stage(configured(notes={"url": scripted.url}), seconds=0.05)
    scripted.hang(ISSUER)
    with pytest.raises(
        AuthServerTimedOut, match=r"did not answer within 0\.05 seconds"
    ):
        await stage.leave("notes", user)


async def test_unavailable_provider_is_unreachable(database, user):
    stage = Stage(configured(notes={"url": "http://127.0.0.1:9/mcp"}))
    with pytest.raises(AuthServerUnreachable):
        await stage.leave("notes", user)


async def test_oversized_metadata_is_refused(stage, scripted, user):
    scripted.answer(ISSUER, b" " * (1024 * 1024 + 1))
    with pytest.raises(AuthServerReplyInvalid, match="more than 1048576 bytes"):
        await stage.leave("notes", user)


# Discovery and registration.


async def test_www_authenticate_names_the_metadata_url(stage, scripted, user):
    elsewhere = f"{scripted.origin}/meta"
    header = f'Bearer realm="x", resource_metadata="{elsewhere}", scope="a b"'
    scripted.answer("/mcp", {}, status=401, WWW_Authenticate=header)
    scripted.answer(f"{RESOURCE}/mcp", b"not this one")
    named = {"resource": scripted.url, "authorization_servers": [scripted.origin]}
    scripted.answer("/meta", named)
    assert asked(await stage.leave("notes", user))["scope"] == "a b"
    assert scripted.heard(f"{RESOURCE}/mcp") == []


async def test_server_without_metadata_is_its_own_issuer(stage, scripted, user):
    scripted.answer(f"{RESOURCE}/mcp", {}, status=404)
    await stage.connect("notes", user)
    assert len(scripted.heard(RESOURCE)) == 1


async def test_openid_configuration_is_accepted(stage, scripted, user):
    scripted.answer(ISSUER, {}, status=404)
    scripted.answer(OPENID, scripted.metadata(scopes_supported=["openid", "notes"]))
    assert asked(await stage.leave("notes", user))["scope"] == "openid notes"


async def test_scopes_of_the_yaml_take_precedence(scripted, database, user):
    oauth = {"scopes": ["read", "write"]}
    stage = Stage(configured(notes={"url": scripted.url, "oauth": oauth}))
    scripted.answer(ISSUER, scripted.metadata(scopes_supported=["all"]))
    assert asked(await stage.leave("notes", user))["scope"] == "read write"
    await stage.come_back("notes", await stage.leave("notes", user))
    row = await database_executor.run(McpToken.objects.get, user_id=user)
    assert row.scopes == "read write"


@pytest.mark.parametrize(
    ("changes", "says"),
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
async def test_unsuitable_metadata_is_refused(stage, scripted, user, changes, says):
    scripted.answer(ISSUER, scripted.metadata(**changes))
    with pytest.raises(AuthServerReplyInvalid, match=says):
        await stage.leave("notes", user)


async def test_metadata_of_another_server_is_refused(stage, scripted, user):
    other = {
        "resource": "https://other.example/mcp",
        "authorization_servers": [scripted.origin],
    }
    scripted.answer(f"{RESOURCE}/mcp", other)
    with pytest.raises(
        AuthServerReplyInvalid, match=r"describes https://other\.example"
    ):
        await stage.leave("notes", user)


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
    stage, scripted, user, status, body, failure
):
    scripted.answer("/register", body, status=status)
    with pytest.raises(failure):
        await stage.leave("notes", user)


async def test_registration_is_stored_with_encrypted_secret(stage, scripted, user):
    await stage.leave("notes", user)
    await Stage(stage.config).leave("notes", new_user())  # Another process.
    assert len(scripted.heard("/register")) == 1
    rows = McpClient.objects.filter(resource=scripted.url)
    row = await database_executor.run(rows.get)
    assert b"app-secret" not in bytes(row.client_secret)
    assert "app-secret" not in str(row.metadata)


async def test_expiring_client_secret_is_replaced(stage, scripted, user):
    ends = int(stage.clock().timestamp()) + 3600
    made = {
        "client_id": "app-1",
        "client_secret": "s",
        "client_secret_expires_at": ends,
    }
    scripted.answer("/register", made, status=201)
    await stage.leave("notes", user)
    scripted.answer("/register", {"client_id": "app-2"}, status=201)
    assert asked(await stage.leave("notes", user))["client_id"] == "app-1"
    stage.clock.forward(minutes=50)
    assert asked(await stage.leave("notes", user))["client_id"] == "app-2"


async def test_moved_endpoints_are_found_within_a_day(stage, scripted, user):
    await stage.leave("notes", user)
    moved = f"{scripted.origin}/consent"
    scripted.answer(ISSUER, scripted.metadata(authorization_endpoint=moved))
    stage.clock.forward(hours=25)
    assert (await stage.leave("notes", user)).url.startswith(f"{moved}?")
    assert len(scripted.heard("/register")) == 1


# Static apps.


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
    return Stage(configured(notes={"url": scripted.url, "oauth": oauth}))


async def test_static_client_needs_no_discovery(scripted, database, user):
    stage = static(scripted)
    link = stage.sign_ins.link(stage.config, "notes", user)
    assert link.startswith("https://me.example/base/mcp/notes/connect?token=")
    question = asked(await stage.connect("notes", user))
    assert question["tenant"] == "1"
    assert (question["client_id"], question["scope"]) == ("mine", "read")
    assert "resource" not in question
    assert await stage.token("notes", user) == "access-1"
    assert {path for _, path, *_ in scripted.requests} == {"/token"}
    stage.clock.forward(seconds=3590)
    scripted.answer("/token", scripted.tokens(access_token="access-2"))
    assert await stage.token("notes", user) == "access-2"


async def test_client_secret_is_not_sent_over_plain_http(scripted, database, user):
    stage = static(scripted, token_url="http://auth.example/token")
    with pytest.raises(AuthServerReplyInvalid, match="must be https"):
        await stage.leave("notes", user)
