"""`POST /v1/responses/input_tokens`."""

import httpx2
import pytest

from tests.gateway.calls import error
from tests.gateway.openai.responses.shapes import ADD, PATH, body, respond

pytestmark = pytest.mark.database


def count(server, request) -> int:
    answer = httpx2.post(f"{server}{PATH}/input_tokens", json=request)
    assert answer.status_code == 200, answer.text
    assert answer.json()["object"] == "response.input_tokens"
    return answer.json()["input_tokens"]


def test_estimate_grows_with_the_request(server, fake, user):
    short = count(server, body(user))
    long = count(server, body(user, "hi " * 100))
    assert 0 < short < long
    assert count(server, body(user, tools=[ADD])) > short
    assert count(server, body(user, instructions="Be brief, please")) > short
    assert fake.requests == []


def test_items_by_reference_count(server, fake, user):
    fake.reply("a long reply " * 50)
    (item,) = respond(server, body(user))["output"]
    reference = {"type": "item_reference", "id": item["id"]}
    items = [reference, {"role": "user", "content": "hi"}]
    assert count(server, body(user, items)) > count(server, body(user)) + 50


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"model": "nope"}, 404, "model"),
        ({"input": []}, 400, "input"),
        ({"tools": [{"type": "web_search"}]}, 400, "tools[0].type"),
        ({"prompt": {"id": "pmpt_1"}}, 400, "prompt"),
    ],
)
def test_bad_requests_are_refused(server, user, fields, status, param):
    request = {**body(user), **fields}
    answer = httpx2.post(f"{server}{PATH}/input_tokens", json=request)
    assert error(answer, status)["param"] == param
