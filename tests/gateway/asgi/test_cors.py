"""Pages of other origins (CORS): `server.allowed_origins`."""

import httpx2
import pytest

from config.errors import ConfigInvalid
from tests.conftest import CONFIG
from tests.gateway import mcp_calls
from tests.gateway.calls import PATH, body

pytestmark = pytest.mark.database

APP = "https://app.example.com"
ALLOW_ORIGIN = "access-control-allow-origin"


@pytest.fixture
def http(server):
    with httpx2.Client(base_url=server, timeout=60, verify=False) as http:
        yield http


def allow(configure, *origins: str, more: str = "") -> None:
    configure(f"{CONFIG}server: {{allowed_origins: {[*origins]}}}\n{more}")


def preflight(http, path: str, origin: str = APP, **headers: str):
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,x-stainless-os",
    }
    return http.options(path, headers={"Origin": origin, **asked, **headers})


def cors(response) -> set[str]:
    return {name for name in response.headers if name.startswith("access-control-")}


@pytest.mark.parametrize("path", [PATH, "/v1/models", "/mcp"])
def test_preflight_of_a_listed_origin(http, configure, path):
    # Browsers send no credentials with it.
    allow(configure, f"{APP.upper()}/", more="auth: {proxy: {tokens: {}}}\n")
    response = preflight(http, path)
    assert response.status_code == 204
    assert response.content == b""
    assert response.headers[ALLOW_ORIGIN] == APP
    assert response.headers["access-control-allow-credentials"] == "true"
    assert response.headers["vary"] == "Origin"
    assert "POST" in response.headers["access-control-allow-methods"]
    asked = "authorization,x-stainless-os"
    assert response.headers["access-control-allow-headers"] == asked


@pytest.mark.parametrize("stream", [True, False])
def test_listed_origin_may_read_the_response(http, configure, fake, user, stream):
    allow(configure, APP)
    fake.reply("hello")
    content = body(user, "hi", stream=stream)
    response = http.post(PATH, json=content, headers={"Origin": APP})
    assert response.status_code == 200
    assert response.headers[ALLOW_ORIGIN] == APP
    exposed = response.headers["access-control-expose-headers"].lower()
    assert {"x-request-id", "x-coulisse-provider"} <= set(exposed.split(", "))


def test_errors_can_be_read_too(http, configure):
    allow(configure, APP, more="auth: {proxy: {tokens: {}}}\n")
    for response in (
        http.post(PATH, json={}, headers={"Origin": APP}),
        http.get("/v1/models", headers={"Origin": APP}),
        http.get("/v1/nowhere", headers={"Origin": APP}),
    ):
        assert response.status_code >= 400
        assert response.headers[ALLOW_ORIGIN] == APP


def test_any_origin_is_without_credentials(http, configure):
    allow(configure, "*")
    for origin in (APP, "null", "chrome-extension://abc"):
        response = preflight(http, PATH, origin)
        assert response.headers[ALLOW_ORIGIN] == "*"
        assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize(
    "origin", ["https://app.example.com.evil.com", "http://app.example.com", "null", ""]
)
def test_other_origins_may_read_nothing(http, configure, origin):
    allow(configure, APP)
    assert not cors(preflight(http, PATH, origin))
    assert not cors(http.get("/v1/models", headers={"Origin": origin}))


@pytest.mark.parametrize("path", ["/admin/", "/admin/tokens", "/health/live", "/mcp/x"])
def test_other_addresses_are_never_opened(http, configure, path):
    allow(configure, "*", APP)
    assert not cors(preflight(http, path))
    assert not cors(http.get(path, headers={"Origin": APP}))


def test_without_the_setting_nothing_is_added(http):
    assert not cors(preflight(http, PATH))
    assert not cors(http.get("/v1/models", headers={"Origin": APP}))


def test_unsafe_header_names_are_not_repeated(http, configure):
    allow(configure, APP)
    asked = {"Access-Control-Request-Headers": "x" * 5_000}
    response = preflight(http, PATH, **asked)
    assert response.status_code == 204
    assert "access-control-allow-headers" not in response.headers


def test_options_without_a_preflight_is_no_preflight(http, configure):
    allow(configure, APP)
    assert http.options(PATH, headers={"Origin": APP}).status_code == 405


@pytest.mark.parametrize(
    ("origins", "status"), [((), 403), ((APP,), 200), (("*",), 200)]
)
def test_mcp_accepts_pages_of_allowed_origins(http, configure, origins, status):
    allow(configure, *origins)
    message = mcp_calls.rpc("tools/list")
    response = http.post("/mcp", json=message, headers={"Origin": APP})
    assert response.status_code == status


@pytest.mark.parametrize(("origins", "status"), [((APP,), 200), (("*",), 403)])
def test_passwords_of_browsers_need_a_listed_origin(http, configure, origins, status):
    login = "auth: {proxy: {basic: {username: ann, password: correct-horse}}}\n"
    allow(configure, *origins, more=login)
    response = http.get(
        "/v1/models", headers={"Origin": APP}, auth=("ann", "correct-horse")
    )
    assert response.status_code == status


@pytest.mark.parametrize(
    "origin", ["app.example.com", "https://a.com/x", "", "https://"]
)
def test_invalid_origins_are_refused(configure, origin):
    with pytest.raises(ConfigInvalid, match="origin of a page"):
        allow(configure, origin)


def test_public_address_is_an_allowed_host(http, configure):
    named = {"Host": "agents.example.com"}
    assert http.get("/v1/models", headers=named).status_code == 400
    configure(f"{CONFIG}public_base_url: https://Agents.example.com/ai\n")
    assert http.get("/v1/models", headers=named).status_code == 200
    other = {"Host": "other.example.com"}
    assert http.get("/v1/models", headers=other).status_code == 400
