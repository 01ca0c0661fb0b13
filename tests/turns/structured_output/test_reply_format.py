"""Replies that must be JSON: instruction, check, repair, and errors."""

import json
from typing import Any

import pytest

from core.events import Usage
from testing.wires import ScriptedAnswer
from tests import growth
from tests.gateway.calls import (
    DONE,
    ask,
    body,
    choices,
    frames,
    prompt,
    refused,
    stored,
    text_of,
)
from turns.structured_output import reply_format

pytestmark = pytest.mark.database

BOTH = pytest.mark.parametrize("agent", ["assistant", "claude"])
EITHER = pytest.mark.parametrize("stream", [True, False])
OBJECT = {"type": "json_object"}
PERSON = {
    "type": "object",
    "properties": {"age": {"type": "integer"}, "name": {"type": "string"}},
    "required": ["age", "name"],
    "additionalProperties": False,
}
ADA = '{"age":36,"name":"Ada"}'
NO_AGE = '{"name": "Ada"}'
MISMATCH = 'response did not match the schema: "age" is a required property'


def schema(schema: Any = PERSON, **more: Any) -> dict:
    inner = {"name": "person", "schema": schema, **more}
    return {"type": "json_schema", "json_schema": inner}


def system_prompt(request: Any) -> str:
    return "".join(text for role, text in prompt(request) if role == "system")


def content(completion: Any) -> Any:
    return completion.choices[0].message.content


@BOTH
def test_schema_follows_the_agents_preamble(client, fake, user, agent):
    fake.reply(ADA)
    asked = schema(description="a single person record", strict=True)
    ask(client, user, agent=agent, response_format=asked)
    system = system_prompt(fake.requests[-1])
    assert system.startswith("You are a test assistant.")
    for part in ("'person'", "a single person record", '"additionalProperties":false'):
        assert part in system


@BOTH
def test_json_object_format_asks_for_json(client, fake, user, agent):
    fake.reply("{}")
    ask(client, user, agent=agent, response_format=OBJECT)
    assert "JSON object" in system_prompt(fake.requests[-1])


@BOTH
def test_text_format_adds_nothing_to_the_prompt(client, fake, user, agent):
    ask(client, user, agent=agent, response_format={"type": "text"})
    assert system_prompt(fake.requests[-1]) == "You are a test assistant."


@pytest.mark.parametrize("native", [True, False])
def test_native_provider_receives_the_response_format(
    client, fake, user, configure, native
):
    how = "native" if native else "prompt"
    configure(
        "providers: {openai: {base_url: '{fake}/v1', structured_outputs: "
        f"{how}}}}}\n"
        "agents: [{name: assistant, provider: openai, model: gpt}]"
    )
    for asked in (schema(strict=True), OBJECT):
        fake.reply(ADA)
        ask(client, user, response_format=asked)
        assert fake.bodies[-1].get("response_format") == (asked if native else None)
        assert "JSON" in system_prompt(fake.requests[-1])


def test_unknown_openai_server_does_not_receive_the_format(client, fake, user):
    fake.reply(ADA)
    ask(client, user, response_format=schema())
    assert "response_format" not in fake.bodies[-1]


# Extraction of the JSON.


@BOTH
@pytest.mark.parametrize(
    "error",
    [
        ADA,
        f"  {ADA}\n",
        f"```json\n{ADA}\n```",
        f"```\n{ADA}\n```",
        f"Here you are:\n\n```json\n{ADA}\n```\nAnything else?",
    ],
)
def test_bare_json_is_returned(client, fake, user, agent, error):
    fake.reply(error)
    completion = ask(client, user, agent=agent, response_format=schema())
    assert content(completion) == ADA
    assert stored(user)[-1] == ("assistant", ADA, "stop")
    assert len(fake.requests) == 1


@BOTH
def test_json_object_accepts_any_object(client, fake, user, agent):
    fake.reply('{"a": [1, "ünï", null]}')
    completion = ask(client, user, agent=agent, response_format=OBJECT)
    assert content(completion) == '{"a": [1, "ünï", null]}'


@pytest.mark.parametrize("value", ["5", "[1,2]", '"text"', "null", "true"])
def test_schema_may_require_another_type_than_object(client, fake, user, value):
    fake.reply(value)
    assert content(ask(client, user, response_format=schema({}))) == value


def test_fences_inside_a_string_are_text(client, fake, user):
    error = json.dumps({"code": "```json\n{}\n```"}, separators=(",", ":"))
    fake.reply(error)
    assert content(ask(client, user, response_format=OBJECT)) == error


# Repair.


@BOTH
def test_repair_shows_the_reply_and_the_error(client, fake, user, agent):
    fake.reply(NO_AGE, usage=Usage(10, 5, cache_read_tokens=1))
    fake.reply(ADA, usage=Usage(30, 7, cache_read_tokens=2))
    completion = ask(client, user, "who?", agent=agent, response_format=schema())
    assert content(completion) == ADA
    *before, reply, correction = prompt(fake.requests[-1])
    assert before == prompt(fake.requests[0])
    assert reply == ("assistant", NO_AGE)
    assert correction[0] == "user"
    assert '"age" is a required property' in correction[1]
    assert completion.usage.prompt_tokens == 40
    assert completion.usage.completion_tokens == 12
    assert completion.usage.prompt_tokens_details.cached_tokens == 3
    assert stored(user) == [("user", "who?", ""), ("assistant", ADA, "stop")]


@BOTH
def test_repair_stops_after_two_retries(server, fake, user, agent):
    fake.default = ScriptedAnswer([NO_AGE])
    error = refused(server, body(user, agent=agent, response_format=schema()), 502)
    assert error["type"] == "upstream_error"
    assert error["message"] == MISMATCH
    assert len(fake.requests) == 3
    assert stored(user) == []


def test_third_attempt_may_succeed(client, fake, user):
    for error in ("no JSON", '{"age": "x", "name": "y"}', ADA):
        fake.reply(error)
    completion = ask(client, user, response_format=schema())
    assert content(completion) == ADA
    corrections = [text for _, text in prompt(fake.requests[-1])[-4:]][1::2]
    assert "not valid JSON" in corrections[0]
    assert "is not of type" in corrections[1]
    assert "age" in corrections[1]
    assert completion.usage.total_tokens == 30


def test_array_does_not_match_json_object(server, fake, user):
    fake.default = ScriptedAnswer(["[1]"])
    error = refused(server, body(user, response_format=OBJECT), 502)
    assert "not an object" in error["message"]


def test_empty_reply_is_repaired(client, fake, user):
    fake.reply()
    fake.reply("{}")
    assert content(ask(client, user, response_format=OBJECT)) == "{}"


def test_repair_is_not_stored_in_the_conversation(client, fake, user):
    fake.reply("oops")
    fake.reply("{}")
    ask(client, user, "one", response_format=OBJECT)
    ask(client, user, "two")
    assert [text for _, text in prompt(fake.requests[-1])[1:]] == ["one", "{}", "two"]


def test_provider_failure_during_repair_is_reported(server, fake, user):
    fake.reply("oops")
    fake.fail(429)
    error = refused(server, body(user, response_format=OBJECT), 429)
    assert error["code"] == "provider_rate_limited"


def test_mismatch_quotes_little_of_schema_and_reply(server, fake, user):
    allowed = ["x" * 300]
    for _ in range(3):
        fake.reply('"y"')
    wanted = schema({"enum": allowed})
    error = refused(server, body(user, response_format=wanted), 502)["message"]
    assert len(error) <= len("response did not match the schema: ") + 100
    assert "…" in error
    # The model receives more of it, to correct its reply.
    assert "x" * 200 in prompt(fake.requests[-1])[-1][1]


@BOTH
def test_truncated_reply_is_not_repaired(server, fake, user, agent):
    fake.reply('{"age": 3', finish="length")
    error = refused(server, body(user, agent=agent, response_format=schema()), 502)
    assert "max_tokens" in error["message"]
    assert len(fake.requests) == 1


def test_complete_reply_at_the_length_limit_is_accepted(client, fake, user):
    fake.reply(ADA, finish="length")
    assert content(ask(client, user, response_format=schema())) == ADA


# Replies that are not checked.


@BOTH
@EITHER
def test_tool_call_is_not_checked_as_a_reply(server, client, fake, user, agent, stream):
    fake.reply("Let me see.", tool_calls=[("add", {})])
    tools = [{"type": "function", "function": {"name": "add"}}]
    asked = {"agent": agent, "tools": tools, "response_format": schema()}
    if stream:
        read = frames(server, body(user, **asked))
        assert choices(read)[-1]["finish_reason"] == "tool_calls"
        assert read[-1] == DONE
    else:
        completion = ask(client, user, **asked)
        assert completion.choices[0].finish_reason == "tool_calls"
        assert completion.choices[0].message.tool_calls[0].function.name == "add"
        assert content(completion) == "Let me see."
    assert len(fake.requests) == 1


@BOTH
@EITHER
def test_refusal_is_returned_unchecked(server, client, fake, user, agent, stream):
    fake.answer(ScriptedAnswer((), refusal="I will not.", finish="content_filter"))
    asked = {"agent": agent, "response_format": schema()}
    if stream:
        read = frames(server, body(user, **asked))
        assert choices(read)[-1]["finish_reason"] == "content_filter"
    else:
        completion = ask(client, user, **asked)
        message = completion.choices[0].message
        assert (message.refusal or message.content) == "I will not."
    assert len(fake.requests) == 1


# Streaming.


@BOTH
def test_matching_stream_is_unchanged(server, fake, user, agent):
    fake.reply('{"age": 36,', ' "name": "Ada"}')
    read = frames(server, body(user, agent=agent, response_format=schema()))
    assert json.loads(text_of(read)) == json.loads(ADA)
    assert choices(read)[-1]["finish_reason"] == "stop"
    assert stored(user)[-1][2] == "stop"


@BOTH
def test_mismatching_stream_ends_with_an_error(server, fake, user, agent):
    fake.reply(NO_AGE)
    read = frames(server, body(user, agent=agent, response_format=schema()))
    *error, failed, done = read
    assert done == DONE
    assert failed["error"]["type"] == "upstream_error"
    assert failed["error"]["message"] == MISMATCH
    assert not any(choice["finish_reason"] for choice in choices(error))
    assert len(fake.requests) == 1
    assert stored(user)[-1] == ("assistant", NO_AGE, "error")


def test_truncated_stream_ends_with_an_error(server, fake, user):
    fake.reply('{"age": 3', finish="length")
    *_, failed, _ = frames(server, body(user, response_format=schema()))
    assert "max_tokens" in failed["error"]["message"]


def test_fence_of_blanks_is_parsed_in_linear_time():
    def parse(text: str) -> None:
        with pytest.raises(reply_format.Mismatch):
            reply_format.parse_json(text)

    assert growth.is_linear(parse, "```", " ", "x")


@pytest.mark.parametrize(
    "text", ['Sure! {"a": 1} Anything else?', '{"a": 1}\n\nDone.', 'So:\n{"a": 1}']
)
def test_prose_around_the_json_is_removed(text):
    assert reply_format.parse_json(text) == ('{"a": 1}', {"a": 1})
