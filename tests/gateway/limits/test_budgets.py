"""Budgets of API tokens: what they refuse, and exact sums."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import httpx2
import openai
import pytest

from access.limits import time_windows, usage_limits
from access.models import ApiToken, UsageCounter
from access.models.counters import EPOCH_SECONDS
from access.tokens import api_tokens, token_secrets
from core.events import Usage
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway.calls import PATH, bearer, body, post, until, user_message

pytestmark = pytest.mark.database

PRICED = (
    CONFIG
    + "\nauth: {proxy: {tokens: {}}}"
    # One dollar per ten tokens.
    + "\nprices: {openai: {gpt-test: {input: 100000, output: 100000}}}\n"
)
COST = 1_000_000
"""The cost of the fake's usual reply of ten tokens, in micro-dollars."""
ESTIMATE = 1_900_000
"""The cost of the requests below: 16 tokens of prompt, 3 of reply."""


@pytest.fixture
def url(running, configure):
    configure(PRICED)
    return running


@pytest.fixture
def create_token(database):
    """Return a function that creates a token and returns its secret."""

    def create_token(user: str, **fields) -> str:
        return api_tokens.create_token("ci", user, by=ADA, **fields)[1]

    return create_token


def ask(url: str, secret: str, **more) -> httpx2.Response:
    request = body("", max_tokens=3, **more)
    del request["safety_identifier"]
    headers = {"Authorization": f"Bearer {secret}"}
    return httpx2.post(
        url + PATH, json=request, headers=headers, timeout=60, verify=False
    )


def meter(secret: str, length: int = time_windows.EVER) -> UsageCounter:
    subject = usage_limits.token_subject(
        ApiToken.objects.verify(token_secrets.digest(secret), datetime.now(UTC))
    )
    start = time_windows.window_at(length, int(time.time())).start
    return UsageCounter.objects.get(subject=subject, window=length, start=start)


def aside(secret: str, length: int = time_windows.EVER) -> tuple[int, int, int]:
    found = meter(secret, length)
    return (
        found.turns_reserved_now + found.turns_reserved_before,
        found.tokens_reserved_now + found.tokens_reserved_before,
        found.micro_usd_reserved_now + found.micro_usd_reserved_before,
    )


@pytest.mark.parametrize("stream", [False, True])
def test_unlimited_token_usage_is_charged(url, fake, user, create_token, stream):
    secret = create_token(user)
    for _ in range(2):
        assert ask(url, secret, stream=stream).status_code == 200
    for length in (time_windows.EVER, time_windows.CALENDAR_MONTH):
        found = meter(secret, length)
        assert (found.micro_usd, found.tokens, found.requests) == (2 * COST, 20, 2)
        assert found.unpriced == 0


@pytest.mark.parametrize("budget", ["total", "monthly"])
def test_spent_budget_returns_openai_quota_error(url, fake, user, create_token, budget):
    secret = create_token(user, budget=budget, limit_micro_usd=COST)
    request = body("", max_tokens=1)
    del request["safety_identifier"]
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key=secret) as client,
        pytest.raises(openai.RateLimitError) as caught,
    ):
        client.chat.completions.create(**request)
    refusal = caught.value
    assert (refusal.type, refusal.code) == ("insufficient_quota", "insufficient_quota")
    assert "budget" in refusal.message
    assert refusal.response.headers["x-should-retry"] == "false"
    assert ("retry-after" in refusal.response.headers) == (budget == "monthly")
    # No provider was called.
    assert fake.requests == []


def test_budget_allows_requests_it_covers(url, fake, user, create_token):
    # The estimate of the prompt is slightly above the fake's seven tokens.
    secret = create_token(user, budget="total", limit_micro_usd=4 * COST)
    codes = [ask(url, secret).status_code for _ in range(6)]
    served = codes.count(200)
    assert codes == [200] * served + [429] * (6 - served)
    assert served in (1, 2, 3)
    assert meter(secret).micro_usd == served * COST
    assert aside(secret) == (0, 0, 0)


def test_parallel_requests_do_not_overspend_budget(url, fake, user, create_token):
    secret = create_token(user, budget="total", limit_micro_usd=10 * ESTIMATE)
    for _ in range(10):
        fake.hang()
    with ThreadPoolExecutor(100) as pool:
        answers = [pool.submit(ask, url, secret) for _ in range(100)]
        fake.wait(lambda: len(fake.requests) == 10)
        until(lambda: sum(answer.done() for answer in answers) == 90)
        assert aside(secret) == (10, 190, 10 * ESTIMATE)
        fake.release()
        codes = sorted(answer.result().status_code for answer in answers)
    assert codes == [200] * 10 + [429] * 90
    assert len(fake.requests) == 10
    assert meter(secret).micro_usd == 10 * COST
    assert meter(secret).requests == 10
    assert aside(secret) == (0, 0, 0)


FALLBACKS = """
  - name: guarded
    provider: openai
    model: gpt-test
    max_tokens: 20
    fallbacks: [talker, {provider: openai, model: gpt-dear}]
  - name: talker
    provider: openai
    model: gpt-test
    max_tokens: 200
"""
ONE_TOKEN = COST // 10
PROMPT = 5


@pytest.mark.parametrize(
    ("requested", "tokens", "dollar_tokens"),
    [
        # The longest prompt and reply, at the highest price of the chain.
        ({}, PROMPT + 200, 10 * (PROMPT + 20)),
        # The request's own limit takes precedence.
        ({"max_completion_tokens": 300}, PROMPT + 300, 10 * (PROMPT + 300)),
        # The model's maximum is lower.
        ({"max_tokens": 10**9}, PROMPT + 128_000, 10 * (PROMPT + 128_000)),
    ],
    ids=["own", "request", "too-much"],
)
def test_reservation_covers_most_expensive_fallback(
    configure, running, fake, user, create_token, requested, tokens, dollar_tokens
):
    dear = "gpt-dear: {input: 1000000, output: 1000000}"
    text = PRICED.replace("prices: {openai: {", f"prices: {{openai: {{{dear}, ")
    configure(text.replace("\nauth:", FALLBACKS + "\nauth:"))
    secret = create_token(user, budget="total", limit_micro_usd=10**13)
    fake.hang()
    with ThreadPoolExecutor(1) as pool:
        request = {"model": "guarded", "messages": [user_message("hi")], **requested}
        answer = pool.submit(post, running, request, headers=bearer(secret))
        fake.wait(lambda: fake.requests)
        assert aside(secret) == (1, tokens, dollar_tokens * ONE_TOKEN)
        fake.release()
        assert answer.result().status_code == 200
    assert aside(secret) == (0, 0, 0)


def test_reservation_of_killed_process_is_released(url, fake, user, create_token):
    secret = create_token(user, budget="total", limit_micro_usd=9 * COST)
    assert ask(url, secret).status_code == 200
    epoch = int(time.time()) // EPOCH_SECONDS
    row = UsageCounter.objects.filter(
        subject=meter(secret).subject, window=time_windows.EVER
    )
    row.update(micro_usd_reserved_now=8 * COST, turns_reserved_now=1, epoch=epoch)
    assert ask(url, secret).status_code == 429
    row.update(epoch=epoch - 2)
    assert ask(url, secret).status_code == 200
    assert meter(secret).micro_usd == 2 * COST


def test_monthly_budget_resets_each_month(url, fake, user, create_token):
    secret = create_token(user, budget="monthly", limit_micro_usd=9 * COST)
    assert ask(url, secret).status_code == 200
    row = UsageCounter.objects.filter(
        subject=meter(secret).subject, window=time_windows.CALENDAR_MONTH
    )
    row.update(micro_usd=9 * COST)
    refusal = ask(url, secret)
    assert refusal.status_code == 429
    assert "it renews on" in refusal.json()["error"]["message"]
    last_month = time_windows.month_start(row.get().start - 1)
    row.update(start=last_month)
    assert ask(url, secret).status_code == 200


def test_disconnected_client_is_charged_for_sent_text(url, fake, user, create_token):
    secret = create_token(user, budget="total", limit_micro_usd=50 * COST)
    fake.hang("mid_stream", "one ", "two ")
    with (
        httpx2.Client(timeout=60, verify=False) as client,
        client.stream(
            "POST",
            url + PATH,
            json={**body("", stream=True, max_tokens=3), "safety_identifier": None},
            headers={"Authorization": f"Bearer {secret}"},
        ) as answer,
    ):
        for line in answer.iter_lines():
            if "one" in line:
                break
    until(
        lambda: UsageCounter.objects.filter(micro_usd__gt=0, subject=_subject(secret))
    )
    found = meter(secret)
    # A cancelled reply has no usage: its charge is an estimate, never 0.
    assert found.micro_usd == found.tokens * COST // 10 > 0
    assert aside(secret) == (0, 0, 0)


def _subject(secret: str) -> str:
    return usage_limits.token_subject(
        ApiToken.objects.verify(token_secrets.digest(secret), datetime.now(UTC))
    )


def test_provider_usage_of_zero_is_charged_as_zero(url, fake, user, create_token):
    secret = create_token(user)
    fake.reply("Hello", usage=Usage(0, 0))
    assert ask(url, secret).headers["x-coulisse-cost-usd"] == "0.000000"
    assert meter(secret).micro_usd == 0


def test_failed_call_releases_its_reservation(url, fake, user, create_token):
    secret = create_token(user, budget="total", limit_micro_usd=4 * COST)
    for _ in range(5):
        fake.fail(500)
        assert ask(url, secret).status_code == 503
        assert aside(secret) == (0, 0, 0)
    assert meter(secret).micro_usd == 0
    assert ask(url, secret).status_code == 200


def test_budgeted_token_refuses_model_without_price(
    configure, running, fake, user, create_token
):
    configure(CONFIG + "\nauth: {proxy: {tokens: {}}}\n")
    limited = create_token(user, budget="monthly", limit_micro_usd=COST)
    refusal = ask(running, limited)
    assert refusal.status_code == 403
    assert refusal.json()["error"]["code"] == "price_unknown"
    assert fake.requests == []
    unlimited = create_token(user)
    answer = ask(running, unlimited)
    assert answer.status_code == 200
    assert "x-coulisse-cost-usd" not in answer.headers
    assert (meter(unlimited).micro_usd, meter(unlimited).unpriced) == (0, 1)


def test_a_revoked_token_is_refused_at_once(url, fake, user, create_token):
    row, secret = api_tokens.create_token("ci", user, by=ADA)
    for _ in range(2):
        assert ask(url, secret).status_code == 200
    api_tokens.revoke(str(row.id), by=ADA)
    refusal = ask(url, secret)
    assert refusal.status_code == 401
    assert refusal.json()["error"]["code"] == "invalid_api_key"
    assert len(fake.requests) == 2


def test_changed_budget_applies_at_once(url, fake, user, create_token):
    row, secret = api_tokens.create_token(
        "ci", user, budget="total", limit_micro_usd=9 * COST, by=ADA
    )
    assert ask(url, secret).status_code == 200
    type(row).objects.filter(pk=row.pk).update(limit_micro_usd=COST, version=2)
    assert ask(url, secret).status_code == 429
