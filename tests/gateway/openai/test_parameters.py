"""Every parameter of OpenAI's API is passed, mapped or refused."""

from typing import Any

import pytest

from access.users import identity
from gateway.schemas import ChatRequest
from tests.gateway.calls import ask, body, post, refused, user_message

pytestmark = pytest.mark.database

BOTH = pytest.mark.parametrize("agent", ["assistant", "claude"])
TOOL = {"type": "function", "function": {"name": "add", "parameters": {}}}
TOOLS = {"tools": [TOOL]}

PASSED: list[tuple[str, Any]] = [
    ("frequency_penalty", 0),
    ("frequency_penalty", -2.0),
    ("moderation", {"model": "omni-moderation-latest"}),
    ("prompt_cache_options", {"ttl": "30m"}),
    ("reasoning_effort", "max"),
    ("logit_bias", {"50256": -100}),
    ("logit_bias", {}),
    ("max_tokens", 1),
    ("parallel_tool_calls", False),
    ("parallel_tool_calls", True),
    ("prediction", {"type": "content", "content": "x"}),
    ("presence_penalty", 0.0),
    ("prompt_cache_key", ""),
    ("prompt_cache_key", "k"),
    ("prompt_cache_retention", "24h"),
    ("reasoning_effort", "none"),
    ("reasoning_effort", "high"),
    ("seed", 0),
    ("seed", -5),
    ("service_tier", "auto"),
    ("stop", ""),
    ("stop", "END"),
    ("stop", []),
    ("stop", ["a", "b"]),
    ("logprobs", True),
    ("store", False),
    ("store", True),
    ("temperature", 0),
    ("temperature", 0.0),
    ("temperature", 2),
    ("tool_choice", "auto"),
    ("tool_choice", "none"),
    ("tool_choice", "required"),
    ("tool_choice", {"type": "function", "function": {"name": "add"}}),
    ("top_p", 0),
    ("top_p", 1),
    ("verbosity", "low"),
]


@pytest.mark.parametrize(("name", "value"), PASSED)
def test_parameter_reaches_openai_compatible_provider(client, fake, user, name, value):
    ask(client, user, **TOOLS, **{name: value})
    assert fake.bodies[-1][name] == value


MAPPED: list[tuple[dict, dict]] = [
    ({"max_tokens": 1}, {"max_tokens": 1}),
    ({"max_completion_tokens": 1}, {"max_tokens": 1}),
    ({}, {"max_tokens": 8192}),
    ({"temperature": 0}, {"temperature": 0}),
    ({"temperature": 1.5}, {"temperature": 1}),
    ({"top_p": 0}, {"top_p": 0}),
    ({"stop": "END"}, {"stop_sequences": ["END"]}),
    ({"stop": ["a", "b"]}, {"stop_sequences": ["a", "b"]}),
    ({"service_tier": "default"}, {"service_tier": "standard_only"}),
    ({"service_tier": "auto"}, {"service_tier": "auto"}),
    ({"tool_choice": "none"}, {"tool_choice": {"type": "none"}}),
    ({"tool_choice": "auto"}, {"tool_choice": {"type": "auto"}}),
    ({"tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
    (
        {"tool_choice": {"type": "function", "function": {"name": "add"}}},
        {"tool_choice": {"type": "tool", "name": "add"}},
    ),
    (
        {"parallel_tool_calls": False},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    (
        {"reasoning_effort": "low"},
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
    ),
]


@pytest.mark.parametrize(("requested", "sent"), MAPPED)
def test_parameter_is_translated_for_anthropic(client, fake, user, requested, sent):
    ask(client, user, agent="claude", **TOOLS, **requested)
    assert {name: fake.bodies[-1][name] for name in sent} == sent


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("frequency_penalty", 0.1),
        ("logit_bias", {"5": 1}),
        ("moderation", {"model": "omni-moderation-latest"}),
        ("presence_penalty", 1),
        ("service_tier", "flex"),
        ("stop", ""),
        ("verbosity", "low"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_parameter_unsupported_by_anthropic_is_refused(
    server, fake, user, stream, name, value
):
    request = body(user, agent="claude", stream=stream, **{name: value})
    assert refused(server, request)["param"] == name
    assert fake.requests == []


@BOTH
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("audio", {"voice": "alloy", "format": "wav"}),
        ("audio", {}),
        ("function_call", "auto"),
        ("functions", [{"name": "add"}]),
        ("functions", []),
        ("modalities", ["text", "audio"]),
        ("modalities", []),
        ("n", 0),
        ("n", 2),
        ("web_search_options", {}),
    ],
)
def test_unsupported_parameter_is_refused(server, fake, user, agent, name, value):
    refusal = refused(server, body(user, agent=agent, **{name: value}))
    assert refusal["param"] == name
    assert refusal["code"] == "unsupported_parameter"
    assert fake.requests == []


@BOTH
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("logprobs", False),
        ("top_logprobs", 0),
        ("modalities", ["text"]),
        ("n", 1),
        ("response_format", {"type": "text"}),
        ("stream", False),
    ],
)
def test_neutral_value_is_accepted(client, fake, user, agent, name, value):
    ask(client, user, agent=agent, **{name: value})
    assert name not in fake.bodies[-1]


HERE = {
    "metadata",
    "model",
    "messages",
    "response_format",
    "safety_identifier",
    "stream",
    "stream_options",
    "tools",
    "user",
}


@BOTH
def test_null_equals_omitted(server, fake, user, agent):
    nothing = dict.fromkeys(set(ChatRequest.model_fields) - {"model", "messages"})
    request = {**nothing, **body(user, agent=agent)}
    assert post(server, request).status_code == 200
    sent = {"model", "messages", "system", "max_tokens", "metadata"}
    assert set(fake.bodies[-1]) <= sent


def test_tables_cover_every_parameter():
    refused_here = {
        "audio",
        "function_call",
        "functions",
        "modalities",
        "n",
        "web_search_options",
        "max_completion_tokens",
        "top_logprobs",
    }
    documented = {name for name, _ in PASSED} | HERE | refused_here
    assert documented == set(ChatRequest.model_fields)


# Parameters that depend on others.


def test_tool_parameters_require_tools(server):
    choice = {"type": "function", "function": {"name": "add"}}
    for given in (
        {"tool_choice": "auto"},
        {"tool_choice": choice},
        {"parallel_tool_calls": True},
    ):
        assert refused(server, body("someone", **given))["param"] == next(iter(given))


def test_tool_choice_must_name_a_given_tool(server):
    choice = {"type": "function", "function": {"name": "multiply"}}
    refusal = refused(server, body("someone", **TOOLS, tool_choice=choice))
    assert refusal["param"] == "tool_choice"
    assert "'multiply'" in refusal["message"]


def test_duplicate_tool_names_are_refused(server):
    assert refused(server, body("someone", tools=[TOOL, TOOL]))["param"] == "tools"


def test_stream_options_require_stream(server):
    request = body("someone", stream_options={"include_usage": True})
    assert refused(server, request)["param"] == "stream_options"


@BOTH
def test_anthropic_refuses_temperature_with_reasoning(server, user, agent):
    request = body(user, agent=agent, reasoning_effort="low", temperature=0)
    if agent == "claude":
        assert refused(server, request)["param"] == "temperature"
    else:
        assert post(server, request).status_code == 200


# Parameters of the agent.


def test_agent_parameters_are_defaults(client, fake, user):
    ask(client, user, agent="tuned")
    sent = fake.bodies[-1]
    assert (sent["temperature"], sent["max_tokens"], sent["seed"]) == (0.0, 50, 7)


def test_request_overrides_each_agent_parameter(client, fake, user):
    ask(client, user, agent="tuned", temperature=1.5, seed=0)
    sent = fake.bodies[-1]
    assert (sent["temperature"], sent["max_tokens"], sent["seed"]) == (1.5, 50, 0)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_either_token_limit_name_overrides_the_agents(client, fake, user, name):
    ask(client, user, agent="tuned", **{name: 9})
    sent = fake.bodies[-1]
    assert sent["max_tokens"] == 9
    assert "max_completion_tokens" not in sent


def test_max_completion_tokens_takes_precedence(client, fake, user):
    ask(client, user, max_tokens=5, max_completion_tokens=9)
    assert fake.bodies[-1]["max_tokens"] == 9


def test_null_keeps_the_agents_default(server, fake, user):
    post(server, body(user, agent="tuned", temperature=None))
    assert fake.bodies[-1]["temperature"] == 0.0


def test_extra_body_is_sent_unchanged(client, fake, user, configure):
    configure(
        "providers: {openai: {base_url: '{fake}/v1'}}\n"
        "agents: [{name: assistant, provider: openai, model: gpt, "
        "extra_body: {top_k: 0, nested: {a: [1]}}}]"
    )
    ask(client, user)
    assert fake.bodies[-1]["top_k"] == 0
    assert fake.bodies[-1]["nested"] == {"a": [1]}


# Private parameters.


@BOTH
@pytest.mark.parametrize("field", ["user", "safety_identifier"])
def test_user_name_is_not_sent_to_providers(server, fake, agent, field):
    name = "alice@example.com"
    request = {"model": agent, "messages": [user_message("hi")], field: name}
    assert post(server, request).status_code == 200
    assert "alice" not in str(fake.bodies[-1])
    assert "alice" not in str(fake.requests[-1].headers)
    if agent == "claude":
        sent = fake.bodies[-1]["metadata"]
        assert sent == {"user_id": identity.derive_user_id(name).hex}


@BOTH
def test_metadata_is_not_sent_to_providers(client, fake, user, agent):
    ask(client, user, agent=agent, metadata={"ticket": "T-1234"})
    assert "T-1234" not in str(fake.bodies[-1])
