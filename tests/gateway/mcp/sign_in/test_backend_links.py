"""Links that a backend asks for."""

import httpx2
import pytest

from tests.gateway.calls import error
from tests.gateway.mcp.sign_in.browser_pages import SECRET, ask_for, is_connected, page
from tests.gateway.memory_client import ok

pytestmark = pytest.mark.database


def test_backend_receives_the_authorization_url(server, browser, protected, user):
    url = ok(ask_for(browser, user))["url"]
    assert url.startswith(protected.url.removesuffix("mcp"))
    with httpx2.Client(verify=False) as anybody:
        page(anybody.get(protected.consent(url)), 200)
    assert is_connected(user)


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", "Basic the-backends-secret", "é"]
)
def test_backend_link_requires_the_secret(server, browser, user, header):
    headers = {} if header is None else {"Authorization": header.encode()}
    answer = browser.post(
        "/mcp/notes/connect-link", params={"user_id": user}, headers=headers
    )
    assert error(answer, 401)["code"] == "invalid_api_key"
    assert SECRET not in answer.text


@pytest.mark.parametrize("secret", ["", '"  "'])
def test_backend_link_without_configured_secret_is_503(
    configure_notes, browser, user, secret
):
    configure_notes("http://127.0.0.1:9/mcp", secret=secret)
    refusal = error(ask_for(browser, user), 503)
    assert refusal["code"] == "mcp_consumer_secret_unset"


def test_backend_link_for_unknown_server_is_404(server, browser, user):
    refusal = error(ask_for(browser, user, name="gone"), 404)
    assert refusal["code"] == "mcp_server_unknown"


def test_backend_link_requires_a_user(server, browser):
    assert error(ask_for(browser, None), 422)["param"] == "user_id"


def test_backend_link_for_server_without_sign_in_is_refused(server, browser, user):
    assert error(ask_for(browser, user, name="open"), 422)["param"] == "server"


@pytest.mark.parametrize("user_id", ["", "   ", "x" * 600])
def test_backend_link_refuses_invalid_user_name(server, browser, user_id):
    assert error(ask_for(browser, user_id), 400)["message"]


@pytest.mark.parametrize("by", ["header", "query", "twice"])
def test_backend_link_refuses_two_users(server, browser, user, by):
    other = f"{user}-b"
    params = [("user_id", user)]
    params += {
        "query": [("safety_identifier", other)],
        "twice": [("user_id", other)],
    }.get(by, [])
    headers = {"Authorization": f"Bearer {SECRET}"}
    if by == "header":
        headers["X-Coulisse-User"] = other
    answer = browser.post("/mcp/notes/connect-link", params=params, headers=headers)
    assert error(answer, 400)["code"] == "user_conflict"


def test_backend_link_refuses_unknown_parameters(server, browser, user):
    headers = {"Authorization": f"Bearer {SECRET}"}
    answer = browser.post(
        "/mcp/notes/connect-link",
        params={"user_id": user, "user": "x"},
        headers=headers,
    )
    assert error(answer, 400)["code"] == "unknown_parameter"


def test_backend_link_with_provider_down_is_502(configure_notes, browser, user):
    configure_notes("http://127.0.0.1:9/mcp")
    assert error(ask_for(browser, user), 502)["code"] == "sign_in_provider_down"


def test_backend_link_refuses_get(server, browser):
    assert error(browser.get("/mcp/notes/connect-link"), 405)
