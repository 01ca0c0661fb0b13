"""Access to the studio over real HTTP, with a real identity provider."""

import socket

import httpx2
import pytest
from django.test import RequestFactory

from access.authentication import local_requests
from access.tokens import api_tokens
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway.calls import basic

pytestmark = pytest.mark.database

BASIC = CONFIG + "auth: {admin: {basic: {password: open-the-studio}}}\n"


# Without auth.admin.


def test_local_studio_is_open_without_login(configure, http):
    configure(CONFIG)
    response = http.get("/admin/")
    assert response.status_code == 200
    assert "Home · Coulisse" in response.text
    assert response.headers["X-Frame-Options"] == "DENY"


def test_home_page_names_agents_and_is_reached_without_slash(configure, http):
    configure(CONFIG)
    response = http.get("/admin", follow_redirects=True)
    assert (response.status_code, response.url.path) == (200, "/admin/")
    assert "<h3>assistant</h3>" in response.text
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    missing = http.get("/admin/nowhere")
    assert missing.status_code == 404
    assert 'href="/admin/"' in missing.text


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "127.0.0.1"},
        {"Forwarded": "for=127.0.0.1"},
        {"X-Real-IP": "127.0.0.1"},
        {"Via": "1.1 proxy"},
        {"CF-Ray": "x"},
        {"X-Forwarded-Proto": "https"},
        {"x-forwarded-host": "localhost"},
        {"Host": "192.168.1.2:8421"},
        {"Host": "coulisse"},
    ],
)
def test_proxied_request_is_refused_with_a_hint(configure, http, headers):
    configure(CONFIG)
    response = http.get("/admin/", headers=headers)
    assert response.status_code == 403
    assert "auth:" in response.text
    assert "password:" in response.text


def test_remote_address_is_not_local(configure, http):
    request = RequestFactory().get("/admin/", HTTP_HOST="localhost")
    seen = {}
    for client in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.7", "::2", ""):
        request.scope = {"client": (client, 1), "http_version": "1.1"}
        seen[client] = local_requests.is_local(request)
    assert [name for name, is_in in seen.items() if is_in] == [
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
    ]
    request.scope = {"client": None}
    assert not local_requests.is_local(request)


def test_http_1_0_proxy_request_is_refused(configure, running):
    configure(CONFIG)
    host, port = running.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as line:
        line.sendall(b"GET /admin/ HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert line.recv(100).split()[1] == b"403"


def test_foreign_origin_is_refused(configure, http):
    configure(CONFIG)
    headers = {"Origin": "http://evil.localhost"}
    assert http.post("/admin/", headers=headers).status_code == 403


def test_path_spellings_do_not_bypass_authentication(configure, http):
    configure(BASIC)
    for path in ("/admin", "//admin/", "/v1/../admin/", "/admin%2f", "/%61dmin/"):
        response = http.send(
            http.build_request("GET", httpx2.URL(http.base_url, raw_path=path.encode()))
        )
        assert response.status_code in (401, 404), path
        assert "Coulisse is running" not in response.text


# auth.admin.basic


def test_password_grants_remote_access(configure, http):
    configure(BASIC)
    headers = {**basic("admin", "open-the-studio"), "X-Forwarded-For": "10.0.0.1"}
    assert http.get("/admin/", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("admin", "wrong"),
        basic("root", "open-the-studio"),
        {"Authorization": "Bearer open-the-studio"},
        {"Authorization": "Basic x"},
    ],
)
def test_other_credentials_are_refused(configure, http, headers):
    configure(BASIC)
    response = http.get("/admin/", headers=headers)
    assert response.status_code == 401
    challenge = 'Basic realm="Coulisse studio", charset="UTF-8"'
    assert response.headers["WWW-Authenticate"] == challenge
    assert response.headers["Content-Type"].startswith("text/html")
    assert '<a href="/admin/">Log in' in response.text


def test_credentials_are_valid_in_one_scope_only(configure, http, database):
    configure(
        CONFIG
        + "auth: {admin: {basic: {password: open-the-studio}}, proxy: {tokens: {}}}\n"
    )
    _, secret = api_tokens.create_token("test", "alice", by=ADA)
    token = {"Authorization": f"Bearer {secret}"}
    assert http.get("/v1/models", headers=token).status_code == 200
    assert http.get("/admin/", headers=token).status_code == 401
    password = basic("admin", "open-the-studio")
    assert http.get("/admin/", headers=password).status_code == 200
    assert http.get("/v1/models", headers=password).status_code == 401


def test_api_does_not_require_the_studio_password(configure, http):
    configure(BASIC)
    assert http.get("/v1/models").status_code == 200
