"""JSON-RPC, headers and the YAML of `/mcp`."""

import pytest

from config.errors import ConfigInvalid
from config.loading import loader
from tests.conftest import CONFIG
from tests.gateway.mcp_calls import call, post, rpc

pytestmark = pytest.mark.database

# The wire.


def test_plain_http_call_is_answered(server, fake, user):
    fake.reply("Hello.")
    answer = post(server, call("assistant", message="hi"), user)
    assert answer.status_code == 200
    assert answer.json()["id"] == 1
    assert answer.json()["result"]["structuredContent"]["reply"] == "Hello."


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
def test_only_post_is_allowed(server, http, method):
    answer = http.request(method, "/mcp", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert answer.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b'"\xff"', -32700),
        (b"[" * 100_000, -32700),
        ([rpc("tools/list")], -32600),
        ({}, -32600),
        ("hi", -32600),
        ({"jsonrpc": "1.0", "id": 1, "method": "tools/list"}, -32600),
        ({"jsonrpc": "2.0", "id": {}, "method": "tools/list"}, -32600),
        (b'{"jsonrpc": "2.0", "id": 1e400, "method": "tools/list"}', -32700),
        (b'{"jsonrpc": "2.0", "id": %d, "method": "ping"}' % 2**70, -32600),
    ],
)
def test_invalid_json_rpc_request_is_refused(server, body, code):
    answer = post(server, body)
    assert answer.status_code == 400
    error = answer.json()
    assert error["error"]["code"] == code
    assert error["id"] is None


@pytest.mark.parametrize(
    "params", [{}, {"name": 5}, {"name": "assistant", "arguments": "hi"}, []]
)
def test_malformed_call_is_a_protocol_error(server, user, params):
    answer = post(server, rpc("tools/call", params), user)
    assert answer.json()["error"]["code"] in (-32602, -32600)


@pytest.mark.parametrize(
    "body",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": [1]},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ],
)
def test_notification_gets_no_answer(server, body):
    answer = post(server, body)
    assert (answer.status_code, answer.content) == (202, b"")


def test_newer_protocol_requires_its_metadata(server, user):
    body = call("assistant", message="hi")
    answer = post(server, body, user, MCP_Protocol_Version="2026-07-28")
    assert answer.status_code == 400
    assert "_meta" in answer.json()["error"]["message"]


def test_an_unknown_version_is_refused(server):
    answer = post(server, rpc("tools/list"), None, MCP_Protocol_Version="1999-01-01")
    assert answer.status_code == 400
    assert "error" in answer.json()


def test_oversized_body_is_refused(server, user):
    answer = post(server, call("assistant", message="x" * 3_000_000), user)
    assert answer.status_code == 413
    error = answer.json()["error"]
    assert error["data"]["code"] == "body_too_large"
    assert error["code"] == -32600


def test_form_content_type_is_refused(server):
    answer = post(server, b"{}", None, Content_Type="text/plain")
    assert answer.json()["error"]["code"] == "unsupported_content_type"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "evil"])
def test_foreign_origin_is_refused(server, origin):
    answer = post(server, rpc("tools/list"), None, Origin=origin)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "origin_not_allowed"


@pytest.mark.parametrize("origin", ["http://localhost:6274", "http://127.0.0.1:80"])
def test_local_origin_is_allowed(server, origin):
    assert post(server, rpc("tools/list"), None, Origin=origin).status_code == 200


def test_foreign_host_is_refused(server):
    answer = post(server, rpc("tools/list"), None, Host="evil.example")
    assert answer.json()["error"]["code"] == "host_not_allowed"


# The YAML.


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("{agents: [asistant]}", "did you mean 'assistant'"),
        ("{agents: [tuned, tuned]}", "twice"),
        ("{agent: [tuned]}", "agent"),
        ("5", "mcp_server"),
    ],
)
def test_invalid_mcp_server_setting_is_refused(tmp_path, setting, complaint):
    path = tmp_path / "coulisse.yaml"
    path.write_text(f"{CONFIG}\nmcp_server: {setting}\n".replace("{fake}", "http://x"))
    with pytest.raises(ConfigInvalid) as caught:
        loader.load_file(path)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("url", "is_refused"),
    [
        ("http://localhost:8421/mcp", True),
        ("http://127.0.0.1:8421/mcp/", True),
        ("https://agents.example.com/mcp", True),
        ("http://localhost:8080/mcp", False),
        ("http://localhost:8421/other", False),
        ("https://other.example.com/mcp", False),
    ],
)
def test_server_refuses_itself_as_mcp_source(tmp_path, url, is_refused):
    path = tmp_path / "coulisse.yaml"
    text = f"""{CONFIG}
public_base_url: https://agents.example.com
mcp: {{loop: {{url: "{url}"}}}}
"""
    path.write_text(text.replace("{fake}", "http://x"))
    if is_refused:
        with pytest.raises(ConfigInvalid, match="'loop' is this server itself"):
            loader.load_file(path)
    else:
        loader.load_file(path)
