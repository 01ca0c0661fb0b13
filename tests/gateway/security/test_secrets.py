"""No random key of the configuration leaves the process."""

import io
import json
import logging
from collections.abc import Callable, Iterator

import httpx2
import pytest
from django.core.management import call_command

from access.audit import audit_log
from access.audit.audit_events import Actor, AuditEvent
from access.models import AuditEntry
from config import live
from core.errors import Unavailable
from telemetry.log_output import formatters
from tests.gateway.calls import body, post, until
from tests.gateway.turns.test_turn_record import turns

pytestmark = pytest.mark.database

KEY = "sk-provider-q7Vd2mXw9Lr4TzK8bNf3HcYs"
HEADER = "hG5kPq82ZtLw7RmXc4VbN9yD"
CHILD = "9f86d081884c7d659a2feaa0c55ad015"
OWN = "sk-coulisse-" + "x" * 43
SECRETS = (KEY, HEADER, CHILD, OWN)
ALL = " and ".join(SECRETS)

YAML = f"""
providers:
  openai:
    api_key: {KEY}
    base_url: {{fake}}/v1
    headers: {{X-Api-Token: {HEADER}}}
    retries: 0
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
  - {{name: boss, provider: openai, model: gpt-test, subagents: [assistant]}}
mcp:
  unused: {{command: "true", env: {{API_KEY: {CHILD}}}}}
telemetry: {{sqlite: {{show_to_users: true}}}}
"""


@pytest.fixture(autouse=True)
def _configured(server, configure):
    configure(YAML)


@pytest.fixture
def written() -> Iterator[Callable[[], str]]:
    """All log output from now on, at every level, in both formats."""
    root = logging.getLogger()
    level, handlers = root.level, []
    for formatter in (formatters.TextFormatter(), formatters.JsonFormatter()):
        handler = logging.StreamHandler(io.StringIO())
        handler.setFormatter(formatter)
        root.addHandler(handler)
        handlers.append(handler)
    root.setLevel(logging.DEBUG)
    yield lambda: "".join(handler.stream.getvalue() for handler in handlers)
    root.setLevel(level)
    for handler in handlers:
        root.removeHandler(handler)


def assert_clean(text: str) -> None:
    assert [secret for secret in SECRETS if secret in text] == []


def settled(user: str) -> str:
    """Return the complete record of a user's only turn, once it is stored."""
    until(lambda: turns(user))
    [turn] = turns(user)
    result = io.StringIO()
    call_command("turn", str(turn.pk), json=True, stdout=result)
    call_command("turn", str(turn.pk), stdout=result)
    call_command("turns", user=user, stdout=result)
    return result.getvalue()


@pytest.mark.parametrize("stream", [True, False])
def test_provider_error_is_redacted(server, fake, user, written, stream):
    fake.fail(400, f"no good: {ALL}", code="odd")
    answer = post(server, body(user, stream=stream))
    assert answer.status_code == 400
    assert "[redacted]" in answer.text
    assert_clean(answer.text + str(answer.headers))
    assert_clean(settled(user))
    assert_clean(written())


def test_broken_stream_is_redacted(server, fake, user, written):
    fake.raw(
        f'data: {{"error": {{"message": "{ALL}"}}}}\n\n',
        content_type="text/event-stream",
    )
    answer = post(server, body(user, stream=True))
    assert_clean(answer.text)
    assert_clean(written())


def test_tool_result_is_redacted(server, fake, user, written):
    fake.call_tool("assistant", {"message": f"The keys are {ALL}."})
    fake.reply(f"They are {ALL}.")
    fake.reply("Done.")
    assert post(server, body(user, agent="boss")).status_code == 200
    result = settled(user)
    assert "[redacted]" in result
    assert_clean(result)
    assert_clean(written())


def test_turn_and_export_are_redacted(http, fake, user):
    answer = http.post("/v1/chat/completions", json=body(user, f"a {KEY} b"))
    until(lambda: turns(user))
    requested = {"params": {"safety_identifier": user}}
    result = http.get(f"/v1/turns/{answer.json()['id']}", **requested).json()
    assert result["user_message"] == "a [redacted] b"
    exported = http.get("/v1/users/me/export", **requested).json()
    assert_clean(json.dumps(exported["turns"]))


def test_secrets_of_the_user_stay_in_the_record(server, fake, user):
    own = "my Bearer abcdefghijklmnopqrstuvwxyz at https://ada:pw1234567@example.com"
    post(server, body(user, own))
    until(lambda: turns(user))
    [turn] = turns(user)
    assert turn.user_message == own


def test_internal_error_is_redacted(server, user, written, monkeypatch):
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError(ALL)

    monkeypatch.setattr("turns.preparation.prompt.new_messages", fail)
    answer = post(server, body(user))
    assert answer.status_code == 500
    assert_clean(answer.text)
    assert "RuntimeError: [redacted]" in written()
    assert_clean(written())


def test_failed_mcp_call_is_redacted(server, user, written, monkeypatch):
    async def fail(*args: object, **kwargs: object) -> None:
        raise Unavailable(ALL)

    monkeypatch.setattr("gateway.mcp_server.server_tools.AgentTool.call", fail)
    call_tool(server, user, "assistant")
    assert_clean(written())


def call_tool(server: str, user: str, name: str) -> str:
    params = {"name": name, "arguments": {"message": "hi"}}
    answer = httpx2.post(
        f"{server}/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        headers={
            "Accept": "application/json, text/event-stream",
            "X-Coulisse-User": user,
        },
        verify=False,
    )
    assert answer.status_code == 200
    return answer.text


@pytest.mark.parametrize("path", [f"/v1/{OWN}", f"/nowhere/{KEY}"])
def test_request_path_is_redacted_in_the_log(http, written, path):
    answer = http.get(path)
    assert answer.status_code == 404
    # Responses may quote the request, but never reveal whether it is a secret.
    assert path in answer.text
    assert_clean(written())


def test_unknown_name_is_redacted_in_the_log(server, written):
    answer = post(server, body("someone", agent=OWN))
    assert answer.status_code == 404
    assert OWN in answer.text
    text = call_tool(server, "someone", KEY)
    assert f"Unknown tool: '{KEY}'" in text
    assert_clean(written())


def test_audit_entry_is_redacted(database):
    audit_log.write(AuditEvent("test.secrets", Actor(OWN, HEADER), KEY, {"said": ALL}))
    entry = AuditEntry.objects.get(action="test.secrets")
    assert_clean(f"{entry.actor} {entry.target} {entry.origin} {entry.details}")


@pytest.mark.parametrize("command", ["check", "schema", "status"])
def test_configuration_commands_are_redacted(command, settings, capsys):
    config = live.current()
    settings.COULISSE_CONFIG = config.path
    settings.COULISSE_STATE_DIR = config.path.parent / ".coulisse"
    result = io.StringIO()
    try:
        call_command(command, stdout=result, stderr=result)
    except SystemExit:
        assert command == "status"
    output = capsys.readouterr()
    assert_clean(result.getvalue() + output.out + output.err)


def test_configuration_errors_are_redacted(settings, tmp_path, capsys):
    path = tmp_path / "coulisse.yaml"
    broken = YAML.replace("{fake}", "http://localhost:1").replace("command:", "comand:")
    path.write_text(broken + f"sk: {KEY}\nproviderz: {{a: {HEADER}}}\n")
    settings.COULISSE_CONFIG = path
    result = io.StringIO()
    with pytest.raises(BaseException) as refused:  # noqa: PT011
        call_command("check", stdout=result, stderr=result)
    assert "comand" in str(refused.value)
    assert_clean(str(refused.value) + result.getvalue() + capsys.readouterr().out)
