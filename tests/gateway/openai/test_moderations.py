"""`/v1/moderations` with the official client."""

import httpx2
import openai
import orjson
import pytest

from tests.conftest import CONFIG
from tests.gateway.calls import error

pytestmark = pytest.mark.database

ANSWER = {
    "id": "modr-1",
    "model": "omni-moderation-latest",
    "results": [{"flagged": True, "categories": {}, "category_scores": {}}],
}


def post(server, **body):
    body = {"user": "ada", **body}
    return httpx2.post(f"{server}/v1/moderations", json=body, timeout=60)


@pytest.mark.parametrize(
    "given", ["I hate you", ["a", "b"], [{"type": "text", "text": "a"}]]
)
def test_provider_moderates_the_input(client, fake, given):
    fake.raw(orjson.dumps(ANSWER))
    answer = client.moderations.create(
        input=given, extra_headers={"X-Coulisse-User": "ada"}
    )
    assert answer.results[0].flagged
    (sent,) = fake.requests
    assert sent.path == "/v1/moderations"
    assert sent.body == {"model": "omni-moderation-latest", "input": given}


def test_provider_can_be_named(server, fake):
    fake.raw(orjson.dumps(ANSWER))
    assert post(server, input="a", model="openai/other").json() == ANSWER
    assert fake.requests[0].body["model"] == "other"
    for model in ("anthropic/omni", "nobody/omni", "openai/"):
        assert error(post(server, input="a", model=model), 404)["param"] == "model"


def test_unknown_model_is_404(server, fake):
    fake.fail(404)
    assert error(post(server, input="a"), 404)["code"] == "model_not_found"


def test_failure_of_the_provider_is_mapped(server, fake):
    fake.raw(b'{"results": 3}')
    refusal = error(post(server, input="a"), 502)
    assert refusal["code"] == "provider_broken_reply"


def test_server_without_a_key_has_no_moderation(configure, server, client):
    lines = CONFIG.splitlines()
    configure("\n".join(line for line in lines if "sk-openai" not in line))
    with pytest.raises(openai.NotFoundError, match="no moderation model"):
        client.moderations.create(input="a", extra_headers={"X-Coulisse-User": "ada"})


@pytest.mark.parametrize(
    "given",
    [
        "",
        [],
        [3],
        ["a"] * 2049,
        [{"type": "image_url", "image_url": {"url": "http://10.0.0.1/a.png"}}],
    ],
    ids=range(5),
)
def test_invalid_input_is_refused(server, fake, given):
    error(post(server, input=given), 400)
    assert fake.requests == []
