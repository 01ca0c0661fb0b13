"""Limits on users and agents: from the request's metadata and the YAML."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from access.limits import limit_states, time_windows, usage_limits
from access.limits.config import Limit
from access.models import UsageCounter
from access.users import identity
from config.errors import ConfigInvalid
from core.events import Usage
from tests.conftest import CONFIG
from tests.gateway.calls import ask, body, open_connection, post, until

pytestmark = pytest.mark.database

HOUR, DAY = time_windows.HOUR, time_windows.DAY


@pytest.fixture
def limited(running, configure):
    """Return a function that starts a server with these limits and returns its URL."""

    def serve(*entries: str) -> str:
        listed = "".join(f"  - {{{entry}}}\n" for entry in entries)
        configure(f"{CONFIG}\nlimits:\n{listed}")
        return running

    return serve


def meters_of(user: str) -> dict[int, UsageCounter]:
    """Return a user's counters, by the length of their window."""
    subject = usage_limits.user_subject(identity.derive_user_id(user))
    return {
        counter.window: counter
        for counter in UsageCounter.objects.filter(subject=subject)
    }


def put_used(user: str, length: int, tokens: int) -> None:
    """Store a usage of a user in the current window."""
    UsageCounter.objects.create(
        subject=usage_limits.user_subject(identity.derive_user_id(user)),
        window=length,
        start=time_windows.window_at(length, int(time.time())).start,
        tokens=tokens,
        last_at=0,
    )


def is_clear(user: str) -> bool:
    """Return whether a user has no reservations."""
    found = meters_of(user).values()
    return all(
        (each.turns_reserved_now, each.tokens_reserved_now, each.micro_usd_reserved_now)
        == (0, 0, 0)
        and (
            each.turns_reserved_before,
            each.tokens_reserved_before,
            each.micro_usd_reserved_before,
        )
        == (0, 0, 0)
        for each in found
    )


# Limits of the request.


@pytest.mark.parametrize(
    ("key", "length", "words"),
    [
        ("tokens_per_hour", HOUR, "hourly"),
        ("tokens_per_day", DAY, "daily"),
        ("tokens_per_month", time_windows.MONTH, "monthly"),
    ],
)
def test_exceeded_token_limit_reports_its_reset(server, fake, user, key, length, words):
    put_used(user, length, 512_000)
    answer = post(server, body(user, metadata={key: "500000"}))
    error = answer.json()["error"]
    seconds = int(answer.headers["Retry-After"])
    assert answer.status_code == 429
    assert error["type"] == "rate_limited"
    assert error["code"] == "rate_limit_exceeded"
    assert error["message"] == (
        f"{words} token limit exceeded: used 512000/500000, retry after {seconds}s"
    )
    end = time_windows.window_at(length, int(time.time())).end
    assert abs(seconds - (end - time.time())) < 5
    assert fake.requests == []


def test_one_token_below_the_limit_is_served(server, user):
    put_used(user, HOUR, 499_999)
    metadata = {"tokens_per_hour": "500000"}
    assert post(server, body(user, metadata=metadata)).status_code == 200
    answer = post(server, body(user, metadata=metadata))
    assert "used 500009/500000" in answer.json()["error"]["message"]


def test_limit_of_zero_refuses_everything(server, fake, user):
    answer = post(server, body(user, metadata={"tokens_per_day": "0"}))
    assert answer.status_code == 429
    assert "used 0/0" in answer.json()["error"]["message"]
    assert fake.requests == []
    assert meters_of(user) == {}


def test_huge_limit_never_refuses(server, user):
    metadata = {"tokens_per_hour": "9" * 60}
    assert post(server, body(user, metadata=metadata)).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_turn_is_charged_to_all_user_windows(server, fake, user, stream):
    fake.reply("Hi", usage=Usage(100, 20))
    post(server, body(user, stream=stream))
    fake.reply("Hi", usage=Usage(7, 3))
    post(server, body(user, stream=stream, metadata={"tokens_per_day": "1000000"}))
    found = meters_of(user)
    assert set(found) == {HOUR, DAY, time_windows.MONTH}
    assert {each.tokens for each in found.values()} == {130}
    assert {each.requests for each in found.values()} == {2}
    assert is_clear(user)


def test_longest_exceeded_limit_is_reported(server, user):
    put_used(user, HOUR, 100)
    put_used(user, DAY, 100)
    metadata = {"tokens_per_hour": "50", "tokens_per_day": "100"}
    answer = post(server, body(user, metadata=metadata))
    assert answer.json()["error"]["message"].startswith("daily token limit exceeded")


def test_limits_are_separate_per_user(server, user):
    put_used(user, DAY, 100)
    metadata = {"tokens_per_day": "100"}
    assert post(server, body(user, metadata=metadata)).status_code == 429
    assert post(server, body(f"{user}-b", metadata=metadata)).status_code == 200


def test_refused_request_releases_its_reservation(server, user):
    put_used(user, DAY, 100)
    for _ in range(3):
        post(server, body(user, metadata={"tokens_per_day": "100"}))
    (counter,) = meters_of(user).values()
    assert (counter.requests, counter.tokens) == (0, 100)
    assert is_clear(user)


def test_remaining_limits_are_in_the_headers(server, fake, user):
    fake.reply("Hi", usage=Usage(100, 20))
    request = body(user, max_tokens=50, metadata={"tokens_per_day": "1000"})
    answer = post(server, request)
    remaining = int(answer.headers["x-ratelimit-remaining-tokens"])
    # The prompt and 50 tokens of reply are reserved until the turn ends.
    assert answer.headers["x-ratelimit-limit-tokens"] == "1000"
    assert 900 < remaining < 950
    assert answer.headers["x-ratelimit-reset-tokens"].endswith("s")
    assert "x-ratelimit-limit-requests" not in answer.headers
    remaining = int(post(server, request).headers["x-ratelimit-remaining-tokens"])
    assert 780 < remaining < 830


# Limits of the YAML.


def test_requests_are_counted_per_user(limited, user):
    url = limited("per: principal, requests_per_hour: 2")
    first, second, third = (post(url, body(user)) for _ in range(3))
    header = "x-ratelimit-remaining-requests"
    assert [first.headers[header], second.headers[header]] == ["1", "0"]
    assert third.status_code == 429
    assert third.headers[header] == "0"
    assert third.headers["x-ratelimit-limit-requests"] == "2"
    assert "hourly request limit of this user exceeded: used 2/2" in third.text
    assert post(url, body(f"{user}-b")).status_code == 200


def test_limit_may_name_one_user(limited, user):
    url = limited(f"per: principal, name: {user}, requests_per_day: 0")
    assert post(url, body(user)).status_code == 429
    assert post(url, body(f"{user}-b")).status_code == 200
    # Under any of the user's names.
    assert post(url, body(str(identity.derive_user_id(user)))).status_code == 429


def test_agent_limit_counts_all_users(limited, user):
    url = limited("per: agent, name: tuned, requests_per_hour: 1")
    UsageCounter.objects.filter(subject="agent:tuned").delete()
    assert post(url, body(user, agent="tuned")).status_code == 200
    refusal = post(url, body(f"{user}-b", agent="tuned"))
    assert "hourly request limit of this agent exceeded" in refusal.text
    assert post(url, body(user)).status_code == 200


def test_all_matching_limits_apply(limited, user):
    url = limited(
        "per: principal, requests_per_hour: 5",
        f"per: principal, name: {user}, requests_per_hour: 1",
    )
    assert post(url, body(user)).headers["x-ratelimit-limit-requests"] == "1"
    assert post(url, body(user)).status_code == 429
    limited("per: principal, requests_per_hour: 5")
    assert post(url, body(user)).headers["x-ratelimit-remaining-requests"] == "3"


def test_official_client_raises_rate_limit_error(limited, client, user):
    limited("per: principal, requests_per_day: 1")
    ask(client, user)
    with pytest.raises(openai.RateLimitError) as caught:
        ask(client, user)
    assert caught.value.code == "rate_limit_exceeded"
    assert int(caught.value.response.headers["retry-after"]) > 0


def test_concurrent_limit_applies(limited, fake, user):
    url = limited("per: principal, concurrent: 2")
    for _ in range(2):
        fake.hang()
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(post, url, body(user)) for _ in range(2)]
        fake.wait(lambda: len(fake.requests) == 2)
        refusal = post(url, body(user))
        assert refusal.status_code == 429
        assert "limit of concurrent turns of this user exceeded: used 2/2" in (
            refusal.text
        )
        assert refusal.headers["Retry-After"] == "1"
        fake.release()
        assert [each.result().status_code for each in running] == [200, 200]
    assert post(url, body(user)).status_code == 200
    assert is_clear(user)


def test_reservation_over_the_limit_refuses_temporarily(limited, fake, user):
    url = limited("per: principal, tokens_per_day: 100")
    request = body(user, max_tokens=500, metadata={"history": "client"})
    fake.hang()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(post, url, request)
        fake.wait(lambda: len(fake.requests) == 1)
        refusal = post(url, request)
        assert refusal.status_code == 429
        message = refusal.json()["error"]["message"]
        assert ", of which running turns reserve " in message
        assert message.endswith(", retry after 1s")
        assert refusal.headers["Retry-After"] == "1"
        assert "X-Should-Retry" not in refusal.headers
        fake.release()
        assert running.result().status_code == 200
    assert post(url, request).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_failed_turn_releases_its_reservation(limited, fake, user, stream):
    url = limited("per: principal, concurrent: 1, tokens_per_day: 100000")
    for status in (500, 401, 400):
        fake.fail(status)
        assert post(url, body(user, stream=stream)).status_code >= 400
        assert is_clear(user)
    assert meters_of(user)[DAY].tokens == 0
    fake.cut("mid_stream", "one", "two")
    answer = post(url, body(user, stream=stream))
    assert stream == (answer.status_code == 200)
    assert is_clear(user)


def test_invalid_request_is_not_counted(limited, user):
    url = limited("per: principal, requests_per_day: 1")
    for wrong in ({"n": 2}, {"temperature": 9}, {"agent": "nobody"}):
        assert post(url, body(user, **wrong)).status_code in (400, 404)
    assert meters_of(user) == {}


def test_cost_limit_applies(limited, fake, user, configure, running):
    configure(
        CONFIG
        + "\nprices: {openai: {gpt-test: {input: 1000, output: 1000}}}"
        + "\nlimits: [{per: principal, usd_per_day: 1}]\n"
    )
    fake.reply("Hi", usage=Usage(500, 100))
    answer = post(running, body(user, max_tokens=100))
    assert answer.headers["x-coulisse-cost-usd"] == "0.600000"
    refusal = post(running, body(user, max_tokens=500))
    assert refusal.status_code == 429
    message = refusal.json()["error"]["message"]
    assert "daily spending limit of this user does not cover the request" in message
    assert ", which may cost $0.5" in message
    assert ": used $0.60/$1.00, retry after" in message
    assert post(running, body(user, max_tokens=100)).status_code == 200


def test_cost_limit_refuses_model_without_price(limited, fake, user):
    url = limited("per: principal, usd_per_month: 5")
    answer = post(url, body(user))
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "price_unknown"
    assert "openai/gpt-test" in answer.text
    assert "yaml" not in answer.text
    assert fake.requests == []
    assert meters_of(user) == {}


def test_incognito_turns_count_toward_limits(limited, user):
    url = limited("per: principal, requests_per_hour: 1")
    request = body(user, metadata={"memory": "incognito"})
    assert post(url, request).status_code == 200
    assert post(url, request).status_code == 429
    # The remaining limit.
    assert set(meters_of(user)) == {HOUR}


def test_parallel_requests_do_not_exceed_limits(limited, fake, user):
    url = limited("per: principal, requests_per_hour: 5, tokens_per_hour: 1000000")
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: post(url, body(user)), range(20)))
    codes = sorted(answer.status_code for answer in answers)
    assert codes == [200] * 5 + [429] * 15
    assert len(fake.requests) == 5
    assert meters_of(user)[HOUR].requests == 5
    assert meters_of(user)[HOUR].tokens == 50
    assert is_clear(user)


def test_disconnected_client_is_charged_for_sent_text(limited, fake, user):
    url = limited("per: principal, concurrent: 1, tokens_per_day: 100000")
    fake.hang("mid_stream", "one ", "two ")
    with open_connection(url, body(user, stream=True)) as caller:
        caller.read_until("one ")
    until(lambda: DAY in meters_of(user) and meters_of(user)[DAY].tokens > 0)
    assert is_clear(user)
    assert post(url, body(user)).status_code == 200


# Invalid limits.


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ("per: user, requests_per_day: 1", "'token', 'principal' or 'agent'"),
        ("per: agent", "has no limit"),
        ("per: agent, concurrent: null", "has no limit"),
        ("requests_per_day: 1", "per"),
        ("per: agent, requests_per_year: 1", "requests_per_year"),
        ("per: agent, requests_per_day: -1", "requests_per_day"),
        ("per: agent, requests_per_day: 1.5", "requests_per_day"),
        ("per: agent, concurrent: 0", "concurrent"),
        ("per: agent, usd_per_day: .inf", "usd_per_day"),
        ("per: agent, usd_per_day: .nan", "usd_per_day"),
        ("per: agent, usd_per_day: 0.0000001", "six decimals"),
        ("per: agent, usd_per_day: -1", "usd_per_day"),
        ("per: agent, name: '', requests_per_day: 1", "name"),
        ("per: agent, name: nobody, requests_per_day: 1", "nobody"),
    ],
)
def test_invalid_limit_is_refused(limited, entry, complaint):
    with pytest.raises(ConfigInvalid) as caught:
        limited(entry)
    assert complaint in str(caught.value)


def test_every_limit_key_creates_a_rule():
    keys = {*Limit.model_fields} - {"per", "name"}
    for key in keys:
        (figure,) = usage_limits.limit_rules(
            Limit.model_validate({"per": "agent", key: 3})
        )
        counted = "micro_usd" if key.startswith("usd") else key.partition("_per_")[0]
        assert figure.unit == ("turns" if key == "concurrent" else counted)
        assert figure.maximum == (3_000_000 if counted == "micro_usd" else 3)


def test_durations_use_openais_format():
    written = [
        limit_states.format_duration(seconds) for seconds in (0, 1, 59, 60, 360, 3_600)
    ]
    assert written == ["0s", "1s", "59s", "1m0s", "6m0s", "1h0m0s"]


def test_user_subjects_are_distinct():
    first, second = (identity.derive_user_id(str(uuid.uuid4())) for _ in range(2))
    assert usage_limits.user_subject(first) != usage_limits.user_subject(second)
