"""The spans of a turn, as a collector receives them."""

import re
from pathlib import Path

import openai
import pytest

from config.sections import Config
from telemetry.config import TelemetryConfig
from telemetry.tracing import spans, turn_spans
from telemetry.tracing.config import OtlpConfig
from telemetry.types import Diagnostics
from testing.scripted_provider import FakeProvider
from tests.gateway.calls import ask, body, frames, open_connection, post
from tests.telemetry.sample_turns import make_record, nested_calls, tool_call
from tests.telemetry.tracing.collector import Collector

pytestmark = pytest.mark.database

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE_ID}-{SPAN_ID}-01"
NOT_SAMPLED = f"00-{TRACE_ID}-{SPAN_ID}-00"


def test_turn_and_model_call_are_spans(
    trace, client: openai.OpenAI, collector: Collector, fake: FakeProvider, user: str
):
    trace()
    fake.reply("Hello", "!")
    reply = ask(client, user, "hi")
    [turn] = collector.wait_for("turn")
    [call] = collector.wait_for("llm_call")
    assert (turn.kind, turn.parent_id, turn.is_error) == ("server", "", False)
    assert (call.kind, call.parent_id) == ("client", turn.span_id)
    assert call.trace_id == turn.trace_id
    assert turn.start <= call.start <= call.end <= turn.end
    turn_id = turn.attributes["turn_id"]
    assert reply.id == f"chatcmpl-{turn_id.replace('-', '')}"
    assert (
        turn.attributes
        | {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "assistant",
            "agent": "assistant",
            "origin": "chat",
            "outcome": "ok",
            "is_streamed": False,
        }
        == turn.attributes
    )
    assert turn.attributes["gen_ai.usage.input_tokens"] == reply.usage.prompt_tokens
    assert (
        call.attributes
        | {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-test",
            "gen_ai.response.model": "gpt-test",
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.agent.name": "assistant",
            "provider": "openai",
            "attempts": 1,
        }
        == call.attributes
    )
    assert call.attributes["gen_ai.usage.output_tokens"] > 0
    assert collector.resource["service.name"] == "coulisse"
    assert collector.paths[0] == "/v1/traces"


def test_spans_of_a_subagent_are_nested(trace, client, collector, fake, user):
    trace()
    fake.call_tool("claude", {"message": "2+2?"})
    fake.reply("4")
    fake.reply("It is 4.")
    ask(client, user, "hi", agent="boss")
    first, inner, last = sorted(
        collector.wait_for("llm_call", 3), key=lambda span: span.start
    )
    [turn], [tool] = collector.wait_for("turn"), collector.wait_for("tool_call")
    assert [first.parent_id, last.parent_id] == [turn.span_id] * 2
    assert tool.parent_id == turn.span_id
    assert inner.parent_id == tool.span_id
    assert (
        tool.attributes
        | {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "claude",
            "tool_name": "claude",
            "kind": "subagent",
            "target": "claude",
        }
        == tool.attributes
    )


def test_provider_receives_the_span_of_its_call(trace, client, collector, fake, user):
    trace()
    fake.call_tool("claude", {"message": "2+2?"})
    ask(client, user, "hi", agent="boss")
    calls = sorted(collector.wait_for("llm_call", 3), key=lambda span: span.start)
    sent = [request.headers["traceparent"] for request in fake.requests]
    assert sent == [f"00-{span.trace_id}-{span.span_id}-01" for span in calls]


def test_header_of_the_client_is_the_parent(trace, server, collector, fake, user):
    trace(sample_ratio=0)
    headers = {"traceparent": SAMPLED, "tracestate": "vendor=1"}
    post(server, body(user), headers=headers)
    [turn] = collector.wait_for("turn")
    assert (turn.trace_id, turn.parent_id) == (TRACE_ID, SPAN_ID)
    assert fake.requests[-1].headers["traceparent"].startswith(f"00-{TRACE_ID}-")
    assert fake.requests[-1].headers["tracestate"] == "vendor=1"


def test_trace_that_the_client_does_not_sample_is_not_exported(
    trace, server, collector, fake, user
):
    trace()
    post(server, body(user), headers={"traceparent": NOT_SAMPLED})
    sent = fake.requests[-1].headers["traceparent"]
    assert re.fullmatch(f"00-{TRACE_ID}-[0-9a-f]{{16}}-00", sent)
    post(server, body(user))
    [turn] = collector.wait_for("turn")
    assert turn.trace_id != TRACE_ID


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00",
        f"ff-{TRACE_ID}-{SPAN_ID}-01",
        f"00-{'0' * 32}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"{SAMPLED}-more",
        SAMPLED.upper(),
        "x" * 10_000,
    ],
    ids=str,
)
def test_invalid_header_is_ignored(trace, server, collector, user, header):
    trace()
    response = post(server, body(user), headers={"traceparent": header})
    assert response.status_code == 200
    [turn] = collector.wait_for("turn")
    assert (turn.trace_id != TRACE_ID, turn.parent_id) == (True, "")


def test_header_of_a_later_version_is_understood(trace, server, collector, user):
    trace()
    header = f"01-{TRACE_ID}-{SPAN_ID}-01-more"
    post(server, body(user), headers={"traceparent": header})
    [turn] = collector.wait_for("turn")
    assert turn.trace_id == TRACE_ID


def test_ratio_decides_about_traces_without_a_parent(
    trace, client, collector, fake, user
):
    trace(sample_ratio=0)
    for _ in range(3):
        ask(client, user, "hi")
    assert fake.requests[-1].headers["traceparent"].endswith("-00")
    trace(sample_ratio=1)
    ask(client, user, "hi")
    assert len(collector.wait_for("turn")) == 1


def test_failed_turn_has_the_error(trace, server, collector, fake, user):
    trace()
    fake.fail(401)
    assert post(server, body(user)).status_code >= 400
    [turn], [call] = collector.wait_for("turn"), collector.wait_for("llm_call")
    assert (turn.is_error, call.is_error) == (True, True)
    assert turn.attributes["outcome"] == "error"
    assert turn.attributes["error.type"] == call.attributes["error.type"]
    assert "openai" in call.error


def test_cancelled_turn_is_exported(trace, server, collector, fake, user):
    trace()
    fake.hang("headers")
    with open_connection(server, body(user, stream=True)):
        fake.wait(lambda: fake.requests)
    [turn], [call] = collector.wait_for("turn"), collector.wait_for("llm_call")
    assert (turn.attributes["outcome"], turn.is_error) == ("cancelled", False)
    assert call.end <= turn.end + 1_000


def test_streamed_turn_is_exported(trace, server, collector, user):
    trace()
    frames(server, body(user))
    [turn] = collector.wait_for("turn")
    assert turn.attributes["is_streamed"] is True
    assert turn.attributes["first_event_seconds"] > 0


def test_content_is_not_exported(trace, client, collector, fake, user):
    trace()
    fake.call_tool("claude", {"message": "hush"})
    fake.reply("hush")
    fake.reply("hush")
    ask(client, user, "hush", agent="boss")
    collector.wait_for("turn")
    collector.wait_for("llm_call", 3)
    assert "hush" not in repr(collector.spans)


def test_content_is_exported_on_request(trace, client, collector, fake, user):
    trace(content=True)
    fake.call_tool("claude", {"message": "2+2?"})
    fake.reply("4")
    fake.reply("It is 4.")
    ask(client, user, "How much?", agent="boss")
    [turn], [tool] = collector.wait_for("turn"), collector.wait_for("tool_call")
    assert "How much?" in turn.attributes["gen_ai.input.messages"]
    assert "It is 4." in turn.attributes["gen_ai.output.messages"]
    assert tool.attributes["gen_ai.tool.call.arguments"] == '{"message":"2+2?"}'
    assert tool.attributes["gen_ai.tool.call.result"] == "4"


def test_long_content_is_cut(trace, client, collector, user):
    trace(content=True)
    ask(client, user, "x" * 100_000)
    [turn] = collector.wait_for("turn")
    assert len(turn.attributes["gen_ai.input.messages"]) == 16_384


def test_incognito_turn_is_not_exported(trace, client, collector, fake, user):
    trace()
    ask(client, user, "hi", metadata={"memory": "incognito"})
    assert "traceparent" not in fake.requests[-1].headers
    ask(client, user, "hi")
    assert len(collector.wait_for("turn")) == 1


def test_named_thread_is_the_conversation(trace, client, collector, user):
    trace()
    ask(client, user, "hi", metadata={"thread_id": "trip"})
    [turn] = collector.wait_for("turn")
    assert turn.attributes["gen_ai.conversation.id"] == "trip"


def export_record(collector: Collector, *calls, **fields) -> None:
    """Export the spans of a record that the test made."""
    otlp = OtlpConfig(endpoint=collector.url, protocol="http")
    config = Config(Path("c.yaml"), {"telemetry": TelemetryConfig(otlp=otlp)})
    turn_spans.export(make_record(*calls, **fields), spans.start_trace(otlp), config)


def test_recall_is_a_span(collector):
    timings = Diagnostics(
        recall="both",
        embedding_seconds=0.1,
        database_seconds=0.2,
        prepare_seconds=0.5,
        facts=3,
    )
    export_record(collector, diagnostics=timings)
    [turn], [span] = collector.wait_for("turn"), collector.wait_for("retrieval")
    assert span.parent_id == turn.span_id
    assert (span.start - turn.start, span.end - span.start) == (
        200_000_000,
        300_000_000,
    )
    assert (
        span.attributes
        | {
            "gen_ai.operation.name": "retrieval",
            "recall": "both",
            "facts": 3,
        }
        == span.attributes
    )


def test_calls_of_a_record_are_spans_at_every_depth(collector):
    export_record(collector, *nested_calls())
    tools = {
        span.attributes["tool_name"]: span
        for span in collector.wait_for("tool_call", 5)
    }
    outer, inner = tools["ask_researcher"], tools["ask_librarian"]
    [librarian] = [
        span
        for span in collector.wait_for("llm_call", 5)
        if span.attributes["agent"] == "librarian"
    ]
    assert (inner.parent_id, librarian.parent_id) == (outer.span_id, inner.span_id)
    assert (inner.is_error, inner.error, outer.is_error) == (True, "", False)
    assert inner.attributes["error.type"] == "_OTHER"
    # It was cancelled with its turn.
    assert tools["slow"].end == collector.named("turn")[0].end


def test_text_that_cannot_be_encoded_costs_no_other_span(collector):
    export_record(collector, tool_call("ad\ud83dd"), thread="a\ud83db")
    [turn], [tool] = collector.wait_for("turn"), collector.wait_for("tool_call")
    assert turn.attributes["gen_ai.conversation.id"] == "a?b"
    assert tool.attributes["tool_name"] == "ad?d"


def test_without_otlp_nothing_is_sent(server, client, fake, user):
    post(server, body(user), headers={"traceparent": SAMPLED})
    assert "traceparent" not in fake.requests[-1].headers
