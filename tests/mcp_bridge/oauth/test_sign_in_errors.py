"""Links, callbacks and token responses that are refused."""

import asyncio

import pytest

from mcp_bridge.oauth.errors import (
    AuthServerRefused,
    AuthServerReplyInvalid,
    BrowserMismatch,
    LinkExpired,
    LinkInvalid,
    LinkUsed,
    ServerUnknown,
    SignInFailed,
    UserMismatch,
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


# Links.


async def test_link_works_once(process, user):
    token = process.link_token("notes", user)
    await process.flow.use_link(process.config, "notes", token, browser="b")
    with pytest.raises(LinkUsed):
        await process.flow.use_link(process.config, "notes", token, browser="b")


async def test_parallel_opens_of_a_link_allow_one(process, user):
    token = process.link_token("notes", user)
    open_named_tools = await asyncio.gather(
        *(
            process.flow.use_link(process.config, "notes", token, browser="b")
            for _ in range(4)
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(each, LinkUsed) for each in open_named_tools) == 3


async def test_looking_at_a_link_does_not_use_it(process, user):
    token = process.link_token("notes", user)
    assert (
        await process.flow.read_link(process.config, "notes", token)
    ).user_id == user
    await process.flow.use_link(process.config, "notes", token, browser="b")


async def test_link_expires(process, user):
    token = process.link_token("notes", user)
    process.clock.forward(minutes=9, seconds=58)
    await process.flow.read_link(process.config, "notes", token)
    process.clock.forward(seconds=3)
    with pytest.raises(LinkExpired):
        await process.flow.read_link(process.config, "notes", token)


async def test_link_does_not_contain_the_user_id(process, user):
    link = process.token_manager.link(process.config, "notes", user)
    assert user.hex not in link
    assert str(user) not in link
    assert link.startswith("http://localhost:8421/mcp/notes/connect?token=")


@pytest.mark.parametrize("place", [0, 11, 12, 40, -1])
async def test_altered_link_is_refused(process, user, place):
    token = process.link_token("notes", user)
    other = "A" if token[place] != "A" else "B"
    altered = token[:place] + other + (token[place + 1 :] if place >= 0 else "")
    with pytest.raises(LinkInvalid):
        await process.flow.read_link(process.config, "notes", altered)


@pytest.mark.parametrize("token", ["", "x", "é", "=" * 40, "A" * 5000, "AAAA\n" * 9])
async def test_invalid_link_is_refused(process, token):
    with pytest.raises(LinkInvalid):
        await process.flow.read_link(process.config, "notes", token)


async def test_link_works_for_its_server_only(scripted, database, user):
    process = SignInProcess(
        configured(a={"url": scripted.url}, b={"url": scripted.url})
    )
    with pytest.raises(LinkInvalid):
        await process.flow.read_link(process.config, "b", process.link_token("a", user))


async def test_link_and_state_are_not_interchangeable(process, user):
    redirect = await process.open_link("notes", user)
    with pytest.raises(LinkInvalid):
        await process.flow.read_link(
            process.config, "notes", authorization_parameters(redirect)["state"]
        )
    token = process.link_token("notes", user)
    with pytest.raises(LinkInvalid):
        await process.complete_sign_in("notes", redirect, state=token)


async def test_link_of_another_user_is_refused_and_stays_valid(process, user):
    token = process.link_token("notes", user)
    opening = {"token": token, "browser": "b"}
    with pytest.raises(UserMismatch):
        await process.flow.use_link(
            process.config, "notes", **opening, user_ids=[user, new_user()]
        )
    await process.flow.use_link(process.config, "notes", **opening, user_ids=[user])


async def test_link_for_unknown_server_is_refused(process, user):
    token = process.link_token("notes", user)
    with pytest.raises(ServerUnknown):
        await process.flow.read_link(process.config, "gone", token)


async def test_link_stays_valid_when_the_provider_fails(process, scripted, user):
    token = process.link_token("notes", user)
    scripted.answer(ISSUER, {}, status=503)
    with pytest.raises(SignInFailed):
        await process.flow.use_link(process.config, "notes", token, browser="b")
    scripted.answer(ISSUER, scripted.metadata())
    await process.flow.use_link(process.config, "notes", token, browser="b")


# The callback.


async def test_callback_stores_the_token(process, scripted, user):
    redirect = await process.connect("notes", user)
    assert await process.token("notes", user) == "access-1"
    parameters = authorization_parameters(redirect)
    assert parameters["code_challenge_method"] == "S256"
    assert parameters["resource"] == scripted.url
    (form,) = scripted.received("/token")
    assert form["client_secret"] == "app-secret"
    assert form["resource"] == scripted.url
    assert form["redirect_uri"] == parameters["redirect_uri"]
    assert len(form["code_verifier"]) >= 43


async def test_state_works_once(process, user):
    redirect = await process.connect("notes", user)
    with pytest.raises(LinkUsed):
        await process.complete_sign_in("notes", redirect)


@pytest.mark.parametrize("cookies", [{}, {"coulisse-sign-in": "browser"}])
async def test_callback_from_another_browser_is_refused(process, user, cookies):
    """Another person opens the provider's address and consents."""
    redirect = await process.open_link("notes", user)
    with pytest.raises(BrowserMismatch):
        await process.complete_sign_in("notes", redirect, cookies=cookies)
    with pytest.raises(BrowserMismatch):
        await process.complete_sign_in(
            "notes", redirect, cookies={redirect.cookie: "x"}
        )
    assert await process.token("notes", user) is None
    await process.complete_sign_in("notes", redirect)  # Who did leave still can.


async def test_invalid_state_is_refused(process, user):
    redirect = await process.open_link("notes", user)
    state = authorization_parameters(redirect)["state"]
    for bad in ("", state[:-1], state[::-1]):
        with pytest.raises(LinkInvalid):
            await process.complete_sign_in("notes", redirect, state=bad)
    process.clock.forward(minutes=11)
    with pytest.raises(LinkExpired):
        await process.complete_sign_in("notes", redirect)


async def test_declined_consent_leaves_user_disconnected(process, scripted, user):
    redirect = await process.open_link("notes", user)
    refusal = {"code": None, "error": "access_denied", "description": "No\n<b>way</b>"}
    with pytest.raises(AuthServerRefused) as caught:
        await process.complete_sign_in("notes", redirect, **refusal)
    assert caught.value.error == "access_denied"
    assert caught.value.description == "No <b>way</b>"
    assert scripted.received("/token") == []
    assert await process.token("notes", user) is None


async def test_callback_without_code_is_refused(process, user):
    redirect = await process.open_link("notes", user)
    with pytest.raises(AuthServerReplyInvalid, match="no authorization code"):
        await process.complete_sign_in("notes", redirect, code=None)


async def test_callback_of_another_issuer_is_refused(process, scripted, user):
    redirect = await process.open_link("notes", user)
    with pytest.raises(AuthServerReplyInvalid, match="is not from"):
        await process.complete_sign_in("notes", redirect, issuer="https://evil.example")
    assert scripted.received("/token") == []
    redirect = await process.open_link("notes", user)
    await process.complete_sign_in("notes", redirect, issuer=scripted.origin)


async def test_missing_required_issuer_is_refused(process, scripted, user):
    user_ids = {"authorization_response_iss_parameter_supported": True}
    scripted.answer(ISSUER, scripted.metadata(**user_ids))
    redirect = await process.open_link("notes", user)
    with pytest.raises(AuthServerReplyInvalid, match="is not from"):
        await process.complete_sign_in("notes", redirect)


# Responses of the token endpoint.


@pytest.mark.parametrize(
    "body",
    [
        b"not JSON",
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        {},
        {"access_token": ""},
        {"access_token": 5},
        {"access_token": "a\r\nX-Evil: 1"},
        {"access_token": "a b"},
        {"access_token": "x" * 20_000},
        {"access_token": "a", "token_type": "mac"},
        {"access_token": "a", "expires_in": "soon"},
    ],
    ids=lambda body: str(body)[:30],
)
async def test_invalid_token_response_is_refused(process, scripted, user, body):
    scripted.answer("/token", body)
    redirect = await process.open_link("notes", user)
    with pytest.raises(AuthServerReplyInvalid) as caught:
        await process.complete_sign_in("notes", redirect)
    assert "x" * 100 not in str(caught.value)
    assert await process.token("notes", user) is None


@pytest.mark.parametrize("status", [200, 400, 401, 500])
async def test_token_error_shows_the_providers_description(
    process, scripted, user, status
):
    error = {"error": "invalid_grant", "error_description": "that code is\x07 old"}
    scripted.answer("/token", error, status=status)
    redirect = await process.open_link("notes", user)
    with pytest.raises(AuthServerRefused) as caught:
        await process.complete_sign_in("notes", redirect)
    assert caught.value.description == "that code is old"


async def test_token_can_have_no_expiry(process, scripted, user):
    scripted.answer("/token", scripted.tokens(expires_in=None, refresh_token=None))
    await process.connect("notes", user)
    process.clock.forward(days=400)
    assert await process.token("notes", user) == "access-1"


async def test_token_endpoint_redirect_is_not_followed(process, scripted, user):
    scripted.answer("/token", {}, status=307, Location=f"{scripted.origin}/other")
    redirect = await process.open_link("notes", user)
    with pytest.raises(SignInFailed):
        await process.complete_sign_in("notes", redirect)
    assert scripted.received("/other") == []
