"""The cost of embeddings of turns."""

import pytest

from access.limits import usage_limits
from access.models import ApiToken as TokenRow
from access.models import UsageCounter
from tests.conftest import CONFIG
from tests.gateway.calls import bearer, body, post, until
from tests.gateway.limits.request_limits.requests import (
    DOLLAR,
    EMBEDDED,
    ESTIMATE,
    QUERY,
    TOKENS,
    is_clear,
    leaving,
    token_meter,
)

pytestmark = pytest.mark.database

# The embeddings of turns.

CHAT_PRICED = (
    "prices: {openai: {text-embedding-3-small: {input: 1000000, output: 0}, "
    "gpt-test: {input: 0, output: 0}}}\n"
)


@pytest.mark.parametrize("stream", [False, True])
def test_recall_of_a_turn_is_charged(serve, fake, user, create_token, stream):
    url = serve(TOKENS, EMBEDDED, CHAT_PRICED)
    secret = create_token(user, budget="total", limit_micro_usd=1000 * DOLLAR)
    request = body(user, QUERY, stream=stream)
    assert post(url, request, headers=bearer(secret)).status_code == 200
    assert len(fake.embeddings) == 1
    until(lambda: is_clear(token_meter(user)))
    # The reply has ten tokens.
    assert token_meter(user).tokens == len(QUERY) + 10
    assert token_meter(user).micro_usd == len(QUERY) * DOLLAR


def test_memory_tools_of_a_turn_are_charged(
    running, configure, fake, user, create_token
):
    text = CONFIG.replace(
        "  - name: assistant\n", "  - name: assistant\n    memory_tools: true\n"
    )
    configure(f"{text}\n{TOKENS}{EMBEDDED}{CHAT_PRICED}")
    fake.call_tool("search_memory", {"query": "breakfast"})
    secret = create_token(user)
    assert post(running, body(user, QUERY), headers=bearer(secret)).status_code == 200
    assert len(fake.embeddings) == 2
    expected = (len(QUERY) + len("breakfast")) * DOLLAR
    assert token_meter(user).micro_usd == expected


def test_spent_token_refuses_turn_before_embedding(serve, fake, user, create_token):
    url = serve(TOKENS, EMBEDDED, CHAT_PRICED)
    secret = create_token(user, budget="total", limit_micro_usd=0)
    answer = post(url, body(user, QUERY), headers=bearer(secret))
    assert answer.status_code == 429
    assert (fake.embeddings, fake.requests) == ([], [])
    assert not UsageCounter.objects.filter(
        subject=usage_limits.token_subject(TokenRow.objects.get(principal=user))
    ).exists()


def test_recall_of_a_refused_turn_is_charged(serve, fake, user, create_token):
    url = serve(TOKENS, EMBEDDED, CHAT_PRICED)
    secret = create_token(user, budget="total", limit_micro_usd=1000 * DOLLAR)
    unknown = {"role": "tool", "tool_call_id": "nobody", "content": "42"}
    messages = [{"role": "user", "content": QUERY}, unknown]
    wrong = body(user, messages=messages)
    assert post(url, wrong, headers=bearer(secret)).status_code == 400
    assert (len(fake.embeddings), fake.requests) == (1, [])
    subject = usage_limits.token_subject(TokenRow.objects.get(principal=user))
    # The counter exists once the charge is stored, after the response.
    until(
        lambda: UsageCounter.objects.filter(subject=subject, micro_usd__gt=0).exists()
    )
    assert token_meter(user).micro_usd == len(QUERY) * DOLLAR
    assert is_clear(token_meter(user))


def test_recall_of_disconnected_client_is_charged(serve, fake, user, create_token):
    url = serve(TOKENS, EMBEDDED, CHAT_PRICED)
    secret = create_token(user, budget="total", limit_micro_usd=1000 * DOLLAR)
    fake.embed(hang="headers")
    content = body(user, QUERY)
    with leaving(url, bearer(secret), "/v1/chat/completions", content):
        fake.wait(lambda: fake.embeddings)
    subject = usage_limits.token_subject(TokenRow.objects.get(principal=user))
    until(
        lambda: UsageCounter.objects.filter(subject=subject, micro_usd__gt=0).exists()
    )
    assert token_meter(user).micro_usd == ESTIMATE * DOLLAR
    assert is_clear(token_meter(user))


def test_tool_result_turn_is_not_refused_by_its_prompt_estimate(
    serve, fake, user, create_token
):
    """The results' calls are in the history, which is not loaded yet."""
    url = serve(TOKENS, EMBEDDED, CHAT_PRICED)
    headers = bearer(create_token(user, budget="total", limit_micro_usd=1000 * DOLLAR))
    fake.call_tool("look")
    tools = [{"type": "function", "function": {"name": "look"}}]
    started = post(url, body(user, "hi", tools=tools), headers=headers).json()
    (requested,) = started["choices"][0]["message"]["tool_calls"]
    result = {"role": "tool", "tool_call_id": requested["id"], "content": "sky"}
    answer = post(url, body(user, messages=[result], tools=tools), headers=headers)
    assert answer.status_code == 200, answer.text
