"""The cost of a reply in responses of the official SDK."""

import openai
import pytest
from openai.types import CompletionUsage

from core import trace
from core.events import ServedBy, Usage
from core.ids import parse_turn_id
from gateway.openai import serializers
from telemetry.storage import turn_store

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

HEADER = "x-coulisse-cost-usd"

PRICES = """
prices:
  openai:
    gpt-test: {input: 2, output: 10, cache_read: 0.5}
"""
YAML = """
providers:
  openai: {api_key: key, base_url: "{fake}/v1", retries: 0}
agents:
  - {name: assistant, provider: openai, model: gpt-test}
  - name: boss
    provider: openai
    model: gpt-test
    subagents: [assistant]
users: shared
"""

SPENT = Usage(1_000, 20, cache_read_tokens=400)
MICRO_USD = 600 * 2 + 400 * 0.5 + 20 * 10
"""1,600."""

SERVED_BY = {"provider": "openai", "model": "gpt-test"}
QUESTION = [{"role": "user", "content": "Hi"}]


@pytest.fixture
def priced(configure) -> None:
    configure(YAML + PRICES)


def ask(client: openai.OpenAI, agent: str = "assistant", **fields):
    return client.chat.completions.with_raw_response.create(
        model=agent, messages=QUESTION, **fields
    )


def recorded(completion_id: str):
    turn_id = parse_turn_id(completion_id)
    assert turn_id is not None
    found = turn_store.load_record(turn_id)
    assert found is not None
    return found


def test_whole_reply_reports_its_cost(client, fake, priced):
    fake.reply("Hello", usage=SPENT)
    answer = ask(client)
    completion = answer.parse()
    assert answer.headers[HEADER] == "0.001600"
    assert completion.coulisse == {**SERVED_BY, "cost_usd": 0.0016}
    turn = recorded(completion.id)
    assert turn.cost_micro_usd == MICRO_USD
    [call] = turn.calls
    assert call.cost_micro_usd == MICRO_USD


def test_usage_object_has_only_openai_fields(client, fake, priced):
    # Clients add up its values, which must be integers.
    fake.reply("Hello", usage=SPENT)
    usage = ask(client).parse().usage
    assert isinstance(usage, CompletionUsage)
    assert usage.model_extra == {}


def test_stream_reports_cost_with_usage(client, fake, priced):
    fake.reply("Hel", "lo", usage=SPENT)
    stream = client.chat.completions.create(
        model="assistant",
        messages=QUESTION,
        stream=True,
        stream_options={"include_usage": True},
    )
    *others, last = stream
    assert last.usage.prompt_tokens == 1_000
    assert last.coulisse == {**SERVED_BY, "cost_usd": 0.0016}
    assert not any("coulisse" in (chunk.model_extra or {}) for chunk in others)


async def test_async_stream_reports_cost(async_client, fake, configure):
    configure(YAML + PRICES)
    fake.reply("Hello", usage=SPENT)
    stream = await async_client.chat.completions.create(
        model="assistant",
        messages=QUESTION,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[-1].coulisse["cost_usd"] == 0.0016


def test_stream_without_usage_reports_cost_at_its_end(client, fake, priced):
    fake.reply("Hello", usage=SPENT)
    stream = client.chat.completions.create(
        model="assistant", messages=QUESTION, stream=True
    )
    *others, last = stream
    assert last.choices[0].finish_reason == "stop"
    assert last.coulisse == {**SERVED_BY, "cost_usd": 0.0016}
    assert not any("coulisse" in (chunk.model_extra or {}) for chunk in others)


def test_unknown_cost_is_left_out(client, fake, configure):
    configure(YAML)
    fake.reply("Hello", usage=SPENT)
    answer = ask(client)
    completion = answer.parse()
    assert HEADER not in answer.headers
    assert completion.coulisse == SERVED_BY
    assert recorded(completion.id).cost_micro_usd is None


def test_zero_cost_is_reported(client, fake, configure):
    configure(YAML + 'prices: {openai: {"*": {input: 0, output: 0}}}')
    fake.reply("Hello", usage=SPENT)
    answer = ask(client)
    assert answer.headers[HEADER] == "0.000000"
    assert answer.parse().coulisse == {**SERVED_BY, "cost_usd": 0.0}


def test_cost_includes_all_rounds_and_subagents(client, fake, priced):
    fake.call_tool("assistant", {"message": "Hi"}, usage=SPENT)
    fake.reply("From below", usage=SPENT)
    fake.reply("From above", usage=SPENT)
    answer = ask(client, "boss")
    assert answer.headers[HEADER] == "0.004800"
    turn = recorded(answer.parse().id)
    costs = [call.cost_micro_usd for call in trace.iter_model_calls([*turn.calls])]
    assert costs == [MICRO_USD] * 3


def test_cost_includes_response_format_repairs(client, fake, priced):
    fake.reply("no JSON", usage=SPENT)
    fake.reply('{"a": 1}', usage=SPENT)
    answer = ask(client, response_format={"type": "json_object"})
    assert answer.headers[HEADER] == "0.003200"


def test_price_edit_applies_to_the_next_reply(client, fake, configure):
    for price, result in (("1", "0.001020"), ("3", "0.003060")):
        own = f"prices: {{openai: {{gpt-test: {{input: {price}, output: {price}}}}}}}"
        configure(YAML + own)
        fake.reply("Hello", usage=SPENT)
        assert ask(client).headers[HEADER] == result


# The format of a cost.


@pytest.mark.parametrize(
    ("micro_usd", "text"),
    [(0, "0.000000"), (1, "0.000001"), (1_234, "0.001234"), (3 * 10**9, "3000.000000")],
)
def test_cost_has_six_decimals(micro_usd, text):
    assert serializers.format_cost(ServedBy("openai", "gpt", 1, micro_usd)) == text


def test_an_unknown_cost_is_none():
    assert serializers.format_cost(None) is None
    assert serializers.format_cost(ServedBy("openai", "gpt", 1)) is None
