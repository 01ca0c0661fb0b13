"""Tokens of an identity provider at `/v1`."""

import base64
import json

import jwt
import openai
import pytest

from access.authentication import oidc_provider
from access.models import AuditEntry
from access.users import identity
from memory.models import Thread
from tests.access.authentication.identity_provider import (
    CLIENT,
)
from tests.gateway.auth.oidc.logins import now, status
from tests.gateway.calls import bearer

pytestmark = pytest.mark.database


def test_sdk_authenticates_with_the_providers_token(guarded, running, idp, fake):
    fake.reply("hello")
    with openai.OpenAI(
        base_url=f"{running}/v1",
        api_key=idp.sign(sub="grace"),
        http_client=openai.DefaultHttpxClient(verify=False),
    ) as client:
        messages = [{"role": "user", "content": "hi"}]
        reply = client.chat.completions.create(model="assistant", messages=messages)
    assert reply.choices[0].message.content == "hello"
    assert Thread.objects.filter(user_id=identity.derive_user_id("grace")).exists()


def test_audit_actor_is_the_oidc_subject(guarded, http, idp, user):
    headers = bearer(idp.sign(sub=user))
    assert http.get("/v1/users/me/export", headers=headers).status_code == 200
    [entry] = AuditEntry.objects.filter(target__contains=identity.derive_user_id(user))
    assert entry.actor == f"oidc:{user}"


def test_provider_keys_are_fetched_once(guarded, http, idp):
    for number in range(5):
        assert status(http, idp.sign(sub=f"user-{number}")) == 200
    assert idp.hits == ["/realm/.well-known/openid-configuration", "/realm/keys"]


def test_elliptic_curve_keys_are_supported(guarded, http, idp):
    idp.add_elliptic("curve")
    assert status(http, idp.sign(kid="curve", alg="ES256")) == 200


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another"},
        {"aud": None},
        {"aud": ["another", "third"]},
        {"iss": "https://evil.example.com"},
        {"iss": None},
        {"exp": now(-60)},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": now(60_000)},
        {"iat": now(60_000)},
        {"sub": ""},
        {"sub": "  "},
        {"sub": None},
        {"sub": "x" * 600},
    ],
)
def test_token_for_another_audience_or_time_is_refused(guarded, http, idp, claims):
    answer = http.get("/v1/models", headers=bearer(idp.sign(**claims)))
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert answer.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'


@pytest.mark.parametrize(
    "claims",
    [
        lambda: {"aud": ["another", CLIENT]},
        lambda: {"exp": now(-10)},
        lambda: {"exp": str(now(60))},
        lambda: {"nbf": now(10)},
    ],
)
def test_token_with_several_audiences_or_small_skew_is_accepted(
    guarded, http, idp, claims
):
    assert status(http, idp.sign(**claims())) == 200


def test_audience_can_be_configured(guarded, http, idp):
    guarded("identity:", "  audience: the-api\n    identity:")
    assert status(http, idp.sign(aud="the-api")) == 200
    assert status(http, idp.sign(aud="another")) == 401


def part(content) -> str:
    text = json.dumps(content).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def forged(idp) -> list[str]:
    head, claims, signature = idp.sign().split(".")
    public = idp._jwk("one")
    pem = jwt.PyJWK(public, algorithm="RS256").key.public_bytes(*pem_format())
    secret = base64.b64encode(pem).decode()
    confused = jwt.encode(
        {"iss": idp.issuer, "aud": CLIENT, "sub": "ada", "exp": now(60)},
        secret,
        algorithm="HS256",
        headers={"kid": "one"},
    )
    return [
        f"{part({'alg': 'none'})}.{claims}.",
        f"{part({'alg': 'None', 'kid': 'one'})}.{claims}.{signature}",
        f"{part({'alg': 'HS256', 'kid': 'one'})}.{claims}.{signature}",
        f"{part({'alg': ['RS256'], 'kid': 'one'})}.{claims}.{signature}",
        f"{part({'alg': 'RS256', 'kid': {'x': 1}})}.{claims}.{signature[:-4]}AAAA",
        confused,
        f"{head}.{part({'sub': 'root'})}.{signature}",
        f"{head}.{claims}.",
        f"{head}.{claims}",
        "a.b.c",
        "x" * 17_000,
        "....",
        "é.é.é",
    ]


def pem_format():
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return Encoding.PEM, PublicFormat.SubjectPublicKeyInfo


def test_forged_tokens_are_refused(guarded, http, idp):
    assert status(http, idp.sign()) == 200
    for token in forged(idp):
        headers = {"Authorization": f"Bearer {token}".encode()}
        answer = http.get("/v1/models", headers=headers)
        assert answer.status_code == 401, token[:80]


def test_symmetric_key_in_the_key_set_is_ignored(guarded, http, idp):
    idp.extra_keys = [{"kty": "oct", "kid": "shared", "k": part("x"), "alg": "HS256"}]
    token = jwt.encode({}, b"x" * 32, algorithm="HS256", headers={"kid": "shared"})
    assert status(http, token) == 401
    assert status(http, idp.sign()) == 200


# Keys change, providers fail.


@pytest.mark.parametrize("key", [{"kty": []}, {"kty": "RSA", "crv": {}}, "RSA", {}])
def test_malformed_keys_are_skipped(guarded, http, idp, key):
    idp.extra_keys = [key]
    assert status(http, idp.sign()) == 200


def test_rotated_key_is_found(guarded, http, idp, monkeypatch):
    monkeypatch.setattr(oidc_provider, "MIN_REFRESH_SECONDS", 0.0)
    assert status(http, idp.sign()) == 200
    old = idp.sign(sub="old")
    idp.rotate()
    assert status(http, idp.sign(kid="two")) == 200
    assert status(http, old) == 401


def test_unknown_key_ids_do_not_cause_refetches(guarded, http, idp):
    idp.keys["lost"] = idp.keys["one"]
    lost = idp.sign(kid="lost")
    del idp.keys["lost"]
    assert [status(http, lost) for _ in range(5)] == [401] * 5
    assert len(idp.hits) == 2


def test_known_keys_stay_valid_when_provider_is_down(guarded, http, idp, monkeypatch):
    assert status(http, idp.sign()) == 200
    monkeypatch.setattr(oidc_provider, "MIN_REFRESH_SECONDS", 0.0)
    idp.status = 0
    assert status(http, idp.sign(sub="another")) == 200
    idp.rotate()
    # The key cannot be checked while the provider is down.
    answer = http.get("/v1/models", headers=bearer(idp.sign(kid="two")))
    assert answer.status_code == 503
    assert answer.json()["error"]["type"] == "service_unavailable"
    idp.status = 200
    assert status(http, idp.sign(kid="two")) == 200


@pytest.mark.parametrize("fault", [0, 404, 500])
def test_provider_failure_at_first_fetch_is_503(guarded, http, idp, fault):
    idp.status = fault
    assert status(http, idp.sign()) == 503


@pytest.mark.parametrize("url", ["http://[", "ftp://127.0.0.1/keys", "", "keys"])
def test_invalid_provider_endpoint_is_503(guarded, http, idp, url):
    idp.endpoints = {"jwks_uri": url}
    assert status(http, idp.sign()) == 503


def test_issuer_mismatch_is_503(guarded, http, idp):
    idp.issuer_says = "https://another.example.com"
    assert status(http, idp.sign(iss=idp.issuer_says)) == 503
