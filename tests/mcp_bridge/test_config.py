from pathlib import Path

import pytest

from config.errors import ConfigInvalid
from config.loading import loader
from config.sections import Config
from mcp_bridge.config import MCP, public_base_url

BASE = """
providers:
  local:
agents:
  - name: assistant
    provider: local
    model: smollm2-135m
"""

STATIC = """
    oauth:
      mode: static
      authorization_url: https://auth.example.com/authorize
      token_url: https://auth.example.com/token
      client_id: my-client
      client_secret: hush-hush
      redirect_uri: https://me.example.com/mcp/it/oauth/callback
      scopes: [read, write]
"""


def read(text: str) -> Config:
    return loader.parse_config((BASE + text).encode(), Path("coulisse.yaml"))


def servers(text: str):
    return read("mcp:" + text).get(MCP)


def parse_server(*lines: str):
    return servers("\n  it:\n" + "\n".join(f"    {line}" for line in lines))["it"]


def error_of(text: str) -> str:
    with pytest.raises(ConfigInvalid) as caught:
        read(text)
    return str(caught.value)


def server_error(*lines: str) -> str:
    return error_of("mcp:\n  it:\n" + "\n".join(f"    {line}" for line in lines))


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["command: uvx"], "stdio"),
        (["url: https://example.com/mcp"], "http"),
        (["url: http://localhost:8080"], "http"),
        (["url: https://example.com/v1/sse"], "sse"),
        (["url: https://example.com/sse/v1?x=1"], "sse"),
        (["url: https://example.com/assembler/essex"], "http"),
        (["url: https://sse.example.com/mcp?sse=1"], "http"),
        (["url: https://example.com/v2", "transport: sse"], "sse"),
        (["url: https://example.com/sse", "transport: http"], "http"),
        (["command: uvx", "transport: stdio"], "stdio"),
    ],
)
def test_transport_is_derived_from_the_fields(lines, kind):
    assert parse_server(*lines).kind == kind


def test_url_server_uses_discovery_by_default():
    assert parse_server("url: http://10.0.0.1/mcp").sign_in.mode == "discover"
    assert (
        parse_server("url: http://localhost/mcp", "oauth: true").sign_in.mode
        == "discover"
    )
    assert parse_server("url: http://localhost/mcp", "oauth: false").sign_in is None
    assert parse_server("command: uvx").sign_in is None
    assert parse_server("command: uvx", "oauth: false").sign_in is None


def test_scopes_alone_imply_discovery():
    sign_in = parse_server(
        "url: https://x.example/mcp", "oauth: {scopes: [a, b]}"
    ).sign_in
    assert (sign_in.mode, sign_in.scopes) == ("discover", ("a", "b"))


@pytest.mark.parametrize("where", ["url: https://x.example/mcp", "command: uvx"])
def test_static_sign_in_works_for_both_transports(where):
    sign_in = servers(f"\n  it:\n    {where}{STATIC}")["it"].sign_in
    assert sign_in.mode == "static"
    assert sign_in.client_secret.get_secret_value() == "hush-hush"


def test_stdio_server_accepts_every_field():
    server = parse_server(
        "command: python",
        "args: [-m, mine]",
        "env: {DEBUG: '1'}",
        "cwd: tools",
        "timeout_seconds: 5",
    )
    assert (server.args, server.cwd, server.timeout_seconds) == (
        ("-m", "mine"),
        "tools",
        5,
    )
    assert server.env["DEBUG"].get_secret_value() == "1"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["timeout_seconds: 5"], "has neither url: nor command:; set"),
        (["url: http://x/mcp", "command: uvx"], "has both url: and command:; remove"),
        (["url: x.example/mcp"], "'url' must be an http:// or https:// address"),
        (["url: ftp://x/mcp"], "must be an http:// or https:// address"),
        (["url: http://me:secret@x/mcp"], "'url' must not contain a user name"),
        (["url: http://x/mcp#a"], "must not have a fragment after #"),
        (["command: ''"], "'command' must not be empty"),
        (["command: x", "transport: http"], "transport: http, which needs a url:"),
        (["url: http://x", "transport: stdio"], "stdio, which needs a command:"),
        (["url: http://x", "transport: tcp"], "'transport' must be one of"),
        (
            ["command: x", "env_from: [HOUSE_KEY]"],
            "'env_from[0]' names the environment variable 'HOUSE_KEY', which is not "
            "set; set it where Coulisse starts, or remove it from the list",
        ),
        (
            ["command: x", "env: {PATH: a}", "env_from: [PATH]"],
            "has PATH in both env and env_from; remove one of them",
        ),
        (["url: http://x", "env_from: [PATH]"], "env_from, which only a command: uses"),
        (["url: http://x", "args: [a]"], "has args, which only a command: uses"),
        (["command: x", "headers: {A: b}"], "has headers, which only a url: uses"),
        (["url: http://x", "headers: {A b: c}"], "is not a valid HTTP header name"),
        (["url: http://x", 'headers: {A: "b\\n"}'], "contains control characters"),
        (
            ["url: http://x", "headers: {authorization: b}"],
            "and a sign-in of each user; add oauth: false",
        ),
        (["command: x", "oauth: {}"], "so its sign-in cannot be discovered"),
        (["command: x", "env: {A: [1]}"], "must be text"),
        (["url: http://x", "oauth: {mode: magic}"], "must be one of 'discover' or"),
        (["url: http://x", "oauth: {scope: [a]}"], "is not a known field; did you"),
        (
            ["url: http://x", "oauth: {client_id: a}"],
            "'oauth' has client_id, which only mode: static uses",
        ),
        (["url: http://x", "timeout_seconds: 0"], "must be greater than 0"),
    ],
)
def test_invalid_fields_are_refused(lines, message):
    message = server_error(*lines)
    assert message in message
    assert "mcp server 'it'" in message
    assert "secret" not in message


def test_incomplete_static_sign_in_names_missing_fields():
    message = server_error(
        "url: http://x/mcp", "oauth: {mode: static, client_id: a, client_secret: ''}"
    )
    assert (
        "'oauth' needs authorization_url, token_url, client_secret, redirect_uri with "
        "mode: static"
    ) in message


def test_server_name_must_fit_a_tool_name():
    message = error_of("mcp:\n  'my server':\n    command: uvx\n")
    assert (
        "mcp server 'my server': the name may contain only letters, digits" in message
    )


def test_redirect_uri_must_match_the_callback():
    message = error_of(f"mcp:\n  other:\n    url: http://x/mcp{STATIC}")
    assert "must end in /mcp/other/oauth/callback" in message
    assert "hush-hush" not in message


def test_repr_shows_no_secrets():
    server = servers(f"\n  it:\n    command: x\n    env: {{KEY: tell-nobody}}{STATIC}")
    assert "tell-nobody" not in repr(server)
    assert "tell-nobody" not in repr(
        parse_server("url: http://x", "headers: {A: tell-nobody}")
    )
    assert "hush-hush" not in repr(server)


@pytest.mark.parametrize(
    "line",
    ["env: {K: other}", "args: [b]", "cwd: c", "timeout_seconds: 9", "command: y"],
)
def test_digest_depends_on_the_configuration(line):
    base = ["command: x", "env: {K: one}", "args: [a]"]
    name = line.partition(":")[0]
    changed = [*(one for one in base if not one.startswith(name)), line]
    assert parse_server(*base).digest == parse_server(*base).digest
    assert parse_server(*base).digest != parse_server(*changed).digest


def test_digest_depends_on_headers():
    base = "url: http://x"
    assert (
        parse_server(base, "headers: {A: b}").digest
        != parse_server(base, "headers: {A: c}").digest
    )
    assert parse_server(base).digest != parse_server(base, "headers: {A: b}").digest


def test_digest_depends_on_the_client_secret():
    one = servers(f"\n  it:\n    url: http://x{STATIC}")["it"]
    other = servers(f"\n  it:\n    url: http://x{STATIC.replace('hush-hush', 'b')}")
    assert one.digest != other["it"].digest


def test_public_base_url_defaults_to_this_machine():
    assert public_base_url(read("")) == "http://localhost:8421"
    assert public_base_url(read("server: {port: 9000}")) == "http://localhost:9000"
    given = read("public_base_url: https://agents.example.com/\n")
    assert public_base_url(given) == "https://agents.example.com"


@pytest.mark.parametrize("address", ["agents.example.com", "https://x.example?a=1"])
def test_invalid_public_base_url_is_refused(address):
    assert "public_base_url" in error_of(f"public_base_url: {address}\n")
