"""Keys that the provider refuses, and clients' retries."""

from typing import Any

import openai
import pytest

from config import live
from tests.docs.pages import table_rows
from tests.gateway.calls import (
    body,
    error,
    post,
    stored,
)
from tests.gateway.limits.provider_faults.fault_cases import (
    EITHER,
    ROWS,
    charged,
    config,
)
from tests.gateway.turns.test_turn_record import load_turn
from tests.providers import faults

pytestmark = pytest.mark.database


def dead(*keys: str) -> faults.Fault:
    """Refuse these keys, and accept others."""

    def steps(request: faults.Request) -> Any:
        return (faults.status(401) if request.key in keys else faults.reply())(request)

    return steps


KEYS = ("sk-first-0123456789", "sk-second-0123456789")


TWO_KEYS = """
providers:
  main:
    kind: openai
    base_url: {address}/v1
    endpoints: [{{api_key: {first}}}, {{api_key: {second}}}]
agents:
  - {{name: lone, provider: main, model: m}}
"""


@pytest.fixture
def two_keys(running, broken):
    """The URL of a server whose provider has two keys."""
    first, second = KEYS
    text = TWO_KEYS.format(address=broken.root_url, first=first, second=second)
    live.set_current(config(text))
    return running


@EITHER
def test_dead_key_is_skipped(two_keys, broken, user, stream):
    broken.default = dead(KEYS[0])
    for number in range(6):
        answer = post(two_keys, body(f"{user}-{number}", agent="lone", stream=stream))
        assert answer.status_code == 200
        assert int(answer.headers["x-coulisse-attempts"]) <= 2
    # The first key is random; the invalid one is used at most once.
    assert [request.key for request in broken.requests].count(KEYS[0]) <= 1


@EITHER
def test_all_dead_keys_return_an_error_without_keys(two_keys, broken, user, stream):
    broken.default = dead(*KEYS)
    answer = post(two_keys, body(user, agent="lone", stream=stream))
    assert error(answer, 502)["code"] == "provider_key_refused"
    assert answer.headers["x-coulisse-attempts"] == "2"
    assert {request.key for request in broken.requests} == {*KEYS}
    assert len(load_turn(user).calls[0].attempts) == 2
    assert not any(key in answer.text for key in KEYS)
    assert stored(user) == []


@EITHER
def test_first_error_is_reported_when_all_fail(call_agent, spare, user, stream):
    spare.fail(401)
    row = next(row for row in ROWS if row.fault == "503")
    answer = call_agent(row, "openai", "guarded", stream=stream)
    refusal = error(answer.response, 503)
    assert refusal["code"] == "provider_overloaded"
    assert "spare/m2: provider 'spare' refused this server's key" in refusal["message"]
    assert answer.headers["x-coulisse-provider"] == "main"
    assert answer.headers["x-coulisse-attempts"] == "4"
    assert [call.provider for call in load_turn(user).calls] == ["main", "spare"]
    assert stored(user) == []
    assert charged(user) == (0, 0)


@EITHER
def test_official_client_does_not_retry(call_agent, running, broken, user, stream):
    row = next(row for row in ROWS if row.fault == "500")
    call_agent(row, "openai", "lone", stream=stream)
    before = len(broken.requests)
    request = body(user, agent="lone", stream=stream)
    with (
        openai.OpenAI(base_url=f"{running}/v1", api_key="x", max_retries=2) as client,
        pytest.raises(openai.InternalServerError) as caught,
    ):
        client.chat.completions.create(**request)
    assert caught.value.code == "provider_overloaded"
    # The server makes three attempts, and the client does not retry.
    assert len(broken.requests) - before == 3


# The page.


def test_reliability_page_lists_every_fault():
    listed = {row[0]: row[1] for row in table_rows("reliability.md", "fault")}
    assert listed.keys() == {row.fault for row in ROWS} | OF_OTHERS
    for row in ROWS:
        for expected in (row.whole, row.stream):
            if expected is None:
                continue
            where = "error frame" if expected.text is not None else str(expected.status)
            assert where in listed[row.fault], row.fault
            assert f"`{expected.code}`" in listed[row.fault] or expected.code is None


OF_OTHERS = {
    "all keys dead",
    "client leaves",
    "fallbacks fail, too",
    "one of two keys dead",
    "open circuit",
    "recovery",
}


"""Rows that other tests of this module cover."""
