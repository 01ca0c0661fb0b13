"""Responses, complete and streamed, with text, tools, reasoning and refusals."""

import pytest
from pydantic import BaseModel

from core.events import Usage
from gateway.openai.responses.schemas import ResponseRequest
from testing.wires import ScriptedAnswer
from tests.gateway.calls import error, prompt, stored
from tests.gateway.openai.responses.shapes import (
    ADD,
    body,
    kinds,
    post,
    respond,
    stream,
    without_times,
)

pytestmark = pytest.mark.database

BOTH = pytest.mark.parametrize("agent", ["assistant", "claude"])
TEXT_EVENTS = [
    "created",
    "in_progress",
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
    "completed",
]


@BOTH
def test_response_has_text_usage_and_headers(client, fake, user, agent):
    fake.reply("Hel", "lo", usage=Usage(70, 30, cache_read_tokens=50))
    raw = client.responses.with_raw_response.create(
        model=agent, input="Hi", safety_identifier=user
    )
    response = raw.parse()
    assert response.output_text == "Hello"
    assert response.status == "completed"
    assert response.model == agent
    assert response.usage.input_tokens == 70
    assert response.usage.input_tokens_details.cached_tokens == 50
    assert response.usage.output_tokens == 30
    assert raw.headers["x-coulisse-attempts"] == "1"
    assert stored(user) == [("user", "Hi", ""), ("assistant", "Hello", "stop")]


@BOTH
def test_stream_sends_every_text_event(server, fake, user, agent):
    fake.reply("Hel", "lo")
    events = stream(server, body(user, model=agent))
    assert kinds(events) == TEXT_EVENTS
    (item,) = events[-1]["response"]["output"]
    assert item["content"][0]["text"] == "Hello"
    assert {each["item_id"] for each in events if "item_id" in each} == {item["id"]}


ANSWERS = {
    "text": {"pieces": ("Hel", "lo")},
    "length": {"pieces": ("Hel",), "finish": "length"},
    "filtered": {"pieces": ("Hel",), "finish": "content_filter"},
    "reasoning": {"pieces": ("Hel", "lo"), "reasoning": ("Let me", " think")},
    "refusal": {"pieces": (), "refusal": "I cannot"},
    "calls": {"pieces": ("So:",), "tool_calls": [("add", {"a": 1}), ("add", {"a": 2})]},
    "nothing": {"pieces": ()},
}


@pytest.mark.parametrize("case", ANSWERS)
def test_streamed_response_equals_the_complete_one(server, fake, user, case):
    request = body(user, tools=[ADD], metadata={"history": "client"})
    fake.answer(ScriptedAnswer(**ANSWERS[case]))
    whole = respond(server, request)
    fake.answer(ScriptedAnswer(**ANSWERS[case]))
    *_, last = stream(server, request)
    assert without_times(last["response"]) == without_times(whole)
    assert last["type"] == f"response.{whole['status']}"


def test_length_and_filter_make_a_response_incomplete(server, fake, user):
    for reason, name in [
        ("length", "max_output_tokens"),
        ("content_filter", "content_filter"),
    ]:
        fake.reply("Hel", finish=reason)
        response = respond(server, body(user))
        assert response["status"] == response["output"][0]["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": name}


def test_reasoning_ends_before_the_text(server, fake, user):
    fake.reply("Hello", reasoning=["Let me", " think"])
    events = stream(server, body(user))
    assert kinds(events)[2:10] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
    ]
    reasoning, message = events[-1]["response"]["output"]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "Let me think"}]
    assert message["content"][0]["text"] == "Hello"


def test_refusal_is_a_part_of_the_message(server, fake, user):
    fake.reply(refusal="I cannot")
    events = stream(server, body(user))
    assert "refusal.delta" in kinds(events)
    assert "refusal.done" in kinds(events)
    (message,) = events[-1]["response"]["output"]
    assert message["content"] == [{"type": "refusal", "refusal": "I cannot"}]


@BOTH
def test_calls_stream_their_arguments(server, fake, user, agent):
    fake.reply(tool_calls=[("add", {"a": 1}), ("add", {"a": 2})])
    events = stream(server, body(user, model=agent, tools=[ADD]))
    done = [e for e in events if e["type"] == "response.function_call_arguments.done"]
    items = events[-1]["response"]["output"]
    assert [e["arguments"].replace(" ", "") for e in done] == ['{"a":1}', '{"a":2}']
    assert [e["item_id"] for e in done] == [item["id"] for item in items]
    assert {item["type"] for item in items} == {"function_call"}
    sent = fake.requests[-1].body["tools"][0]
    assert (sent.get("function") or sent)["name"] == "add"


@BOTH
@pytest.mark.parametrize("streamed", [False, True])
def test_signed_reasoning_returns_with_the_results(server, fake, user, agent, streamed):
    fake.reply(reasoning=["Let me think"], tool_calls=[("add", {"a": 1})])
    request = body(
        user, model=agent, tools=[ADD], include=["reasoning.encrypted_content"]
    )
    if streamed:
        output = stream(server, request)[-1]["response"]["output"]
    else:
        output = respond(server, request)["output"]
    result = {"type": "function_call_output", "call_id": "", "output": "3"}
    call = next(item for item in output if item["type"] == "function_call")
    history = [{"role": "user", "content": "hi"}, *output]
    respond(
        server,
        body(user, [*history, {**result, "call_id": call["call_id"]}], model=agent)
        | {"tools": [ADD], "metadata": {"history": "client"}},
    )
    reply = next(
        m for m in fake.requests[-1].body["messages"] if m["role"] == "assistant"
    )
    if agent == "claude":
        assert reply["content"][0]["type"] == "thinking"
        assert reply["content"][0]["signature"]
        assert len([item for item in output if item["type"] == "reasoning"]) == 1


def test_request_is_repeated_in_the_response(server, fake, user):
    response = respond(
        server,
        body(
            user,
            instructions="Be brief",
            metadata={"language": "fr"},
            temperature=0,
            max_output_tokens=50,
            text={"verbosity": "low"},
            tools=[ADD],
            reasoning={"effort": "low"},
        ),
    )
    assert response["instructions"] == "Be brief"
    assert response["metadata"] == {"language": "fr"}
    assert response["temperature"] == 0
    assert response["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert response["tools"] == [{**ADD, "strict": None}]
    sent = fake.requests[-1].body
    assert sent["temperature"] == 0
    assert sent["max_tokens"] == 50
    assert sent["verbosity"] == "low"
    assert sent["reasoning_effort"] == "low"
    assert ("system", "Be brief") in prompt(fake.requests[-1])


NULLABLE = sorted(
    {
        name
        for name, field in ResponseRequest.model_fields.items()
        if not field.is_required()
    }
    - {"safety_identifier", "stream"}
)
NULLS = dict.fromkeys(NULLABLE)


SENT_NEUTRALLY = {"model", "max_tokens", "messages", "metadata", "system"}


def test_nulls_and_neutral_values_are_accepted(server, fake, user):
    answer = respond(server, {**NULLS, **body(user)})
    assert answer["status"] == "completed"
    assert set(fake.bodies[-1]) == {"model", "messages"}
    neutral = {
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "truncation": "disabled",
        "service_tier": "auto",
        "store": False,
        "include": [],
        "reasoning": {"effort": None, "summary": "auto"},
        "text": {"format": {"type": "text"}, "verbosity": None},
        "stream_options": {"include_obfuscation": False},
    }
    respond(server, body(user, model="claude", **neutral))
    assert set(fake.bodies[-1]) <= SENT_NEUTRALLY


class Sum(BaseModel):
    value: int


def test_parse_returns_the_model(client, fake, user):
    fake.reply('{"value": 3}')
    response = client.responses.parse(
        model="assistant", input="1 + 2", text_format=Sum, safety_identifier=user
    )
    assert response.output_parsed == Sum(value=3)


def test_stream_helper_returns_the_final_response(client, fake, user):
    fake.reply("Hel", "lo")
    with client.responses.stream(
        model="assistant", input="Hi", safety_identifier=user
    ) as stream:
        deltas = [e.delta for e in stream if e.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert deltas == ["Hel", "lo"]
    assert final.output_text == "Hello"


async def test_async_client_runs_a_tool_loop(async_client, fake, user):
    fake.call_tool("add", {"a": 1})
    fake.reply("Two")
    conversation = [{"role": "user", "content": "1 + 1?"}]
    for _ in range(2):
        response = await async_client.responses.create(
            model="assistant",
            input=conversation,
            tools=[ADD],
            safety_identifier=user,
        )
        conversation += response.output
        conversation += [
            {"type": "function_call_output", "call_id": item.call_id, "output": "2"}
            for item in response.output
            if item.type == "function_call"
        ]
    assert response.output_text == "Two"
    assert [m["role"] for m in fake.requests[-1].body["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]


def test_failed_stream_ends_with_a_failed_response(server, fake, user):
    fake.reply("Hel", error={"message": "overloaded", "type": "server_error"})
    *_, problem, failed = stream(server, body(user))
    assert problem["type"] == "error"
    assert failed["type"] == "response.failed"
    assert failed["response"]["error"]["code"] == "server_error"
    assert failed["response"]["output"][0]["content"][0]["text"] == "Hel"


def test_failure_before_the_first_event_has_its_status(server, fake, user):
    fake.fail(429)
    response = post(server, body(user, stream=True))
    assert error(response, 429)["type"] == "upstream_error"


def test_unknown_agent_is_refused(server, user):
    assert error(post(server, body(user, model="nobody")), 404)["param"] == "model"
