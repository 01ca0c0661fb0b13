"""The tools that `/mcp` lists, and an agent's tool."""

import json
from uuid import UUID

import pytest
from mcp import MCPError

from access.users import identity
from telemetry.storage import turn_store
from tests.conftest import CONFIG
from tests.gateway import calls, mcp_calls
from tests.gateway.calls import prompt, stored, threads
from tests.gateway.mcp.server.session import AGENTS, EITHER, MEMORY, REMEMBERING, tools
from tests.gateway.mcp_calls import call, post, rpc, text, with_client

pytestmark = pytest.mark.database

# The tools.


@EITHER
def test_tools_list_agents_and_memory(server, user, mode):
    found = tools(server, user, mode)
    assert list(found) == AGENTS + MEMORY
    assert found["claude"].description == "Thinks."
    assert found["assistant"].description == "Ask the agent 'assistant'."
    schema = found["assistant"].input_schema
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["message"]
    assert found["search_memory"].annotations.read_only_hint


@EITHER
def test_initialize_returns_name_and_instructions(server, mode):
    async def look(client):
        return client.server_info, client.instructions

    info, instructions = with_client(server, None, look, mode=mode)
    assert (info.name, info.title) == ("coulisse", "Coulisse")
    assert "thread" in instructions


def test_tool_list_needs_no_user_and_follows_the_yaml(server, configure):
    assert "assistant" in tools(server)
    configure(CONFIG.replace("name: assistant", "name: butler"))
    assert list(tools(server)) == ["butler", *AGENTS[1:]]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("{agents: [tuned, claude]}", ["claude", "tuned", *MEMORY]),
        ("{agents: []}", MEMORY),
        ("{memory_tools: false}", AGENTS),
        ("true", AGENTS + MEMORY),
    ],
)
def test_yaml_selects_the_offered_tools(running, configure, setting, expected):
    configure(f"{REMEMBERING}\nmcp_server: {setting}\n")
    assert list(tools(running)) == expected


def test_tool_names_are_valid_and_unique(running, configure, fake, user):
    names = ["le chef", "le_chef", "le:chef", "search_memory", "chef" * 30, "厨师"]
    agents = "".join(
        f"  - {{name: {json.dumps(name)}, provider: openai, model: m}}\n"
        for name in names
    )
    configure(CONFIG.partition("agents:")[0] + "agents:\n" + agents)
    found = {tool.title: name for name, tool in tools(running).items()}
    assert list(found) == names
    assert len(set(found.values())) == len(names)
    assert found["le_chef"] == "le_chef"
    assert all(name.isascii() and len(name) <= 64 for name in found.values())
    for name in names:
        result = mcp_calls.ask(running, user, "hi", agent=found[name])
        assert result.structured_content["agent"] == name


def test_disabled_mcp_server_is_404(running, configure):
    configure(f"{CONFIG}\nmcp_server: false\n")
    answer = post(running, rpc("tools/list"))
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


# An agent's tool.


@EITHER
@pytest.mark.parametrize("agent", ["assistant", "claude"])
def test_agent_call_runs_a_turn(server, fake, user, mode, agent):
    fake.reply("Good ", "evening.")
    result = mcp_calls.ask(server, user, "Good evening?", agent=agent, mode=mode)
    assert not result.is_error
    assert text(result) == "Good evening."
    response_data = result.structured_content
    assert response_data["reply"] == "Good evening."
    assert (response_data["agent"], response_data["thread_id"]) == (agent, None)
    assert response_data["finish_reason"] == "stop"
    assert response_data["usage"]["total_tokens"] > 0
    assert stored(user) == [
        ("user", "Good evening?", ""),
        ("assistant", "Good evening.", "stop"),
    ]


def test_agent_call_is_recorded(server, fake, user):
    result = mcp_calls.ask(server, user, "Good evening?")
    turn_id = UUID(result.structured_content["turn_id"])
    turn = turn_store.load_record(turn_id, identity.derive_user_id(user))
    assert (turn.turn_id, turn.agent) == (turn_id, "assistant")
    assert turn.outcome == "ok"


def test_agent_call_continues_the_main_conversation(server, client, fake, user):
    calls.ask(client, user, "My name is Ada.")
    mcp_calls.ask(server, user, "Who am I?")
    message = [message for role, message in prompt(fake.requests[-1]) if role == "user"]
    assert message == ["My name is Ada.", "Who am I?"]


def test_thread_id_selects_a_conversation(server, fake, user):
    mcp_calls.ask(server, user, "one", thread_id="work")
    result = mcp_calls.ask(server, user, "two", thread_id="home")
    assert result.structured_content["thread_id"] == "home"
    assert threads(user) == ["home", "work"]
    assert "one" not in str(prompt(fake.requests[-1]))


def test_threads_are_isolated_between_users(server, fake, user):
    mcp_calls.ask(server, user, "secret", thread_id="work")
    mcp_calls.ask(server, f"{user}-b", "hello", thread_id="work")
    assert "secret" not in str(prompt(fake.requests[-1]))


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"message": ""},
        {"message": 5},
        {"message": "hi", "thread_id": " "},
        {"message": "hi", "thread_id": "x" * 513},
        {"message": "hi", "mesage": "hi"},
    ],
)
def test_wrong_arguments_are_reported_to_the_model(server, fake, user, arguments):
    result = with_client(
        server, user, lambda client: client.call_tool("assistant", arguments)
    )
    assert result.is_error
    assert {*arguments, "message"} & set(text(result).replace(":", "'").split("'"))
    assert not fake.requests


def test_failed_turn_is_reported_to_the_model(server, fake, user):
    fake.fail(500, "out of order")
    result = mcp_calls.ask(server, user, "hi")
    assert result.is_error
    assert text(result) == "provider 'openai' failed (HTTP 500)"


@EITHER
def test_unknown_tool_is_a_protocol_error(server, user, mode):
    with pytest.raises(MCPError) as caught:
        mcp_calls.ask(server, user, "hi", agent="asistant", mode=mode)
    assert caught.value.error.code == -32602
    assert "Unknown tool: 'asistant'" in caught.value.error.message
    assert "'assistant'" in caught.value.error.message


def test_overlong_tool_name_is_not_repeated(server, user):
    answer = post(server, call("x" * 100_000), user)
    assert len(answer.content) < 500


def test_ping_is_answered(server):
    assert post(server, rpc("ping")).json()["result"] == {}


def test_an_unknown_method_is_not_found(server):
    answer = post(server, rpc("prompts/list"))
    assert answer.status_code == 200  # In the older protocols it is only in the body.
    assert answer.json()["error"]["code"] == -32601
