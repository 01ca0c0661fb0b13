"""The list of agents; no model is called."""

import httpx2
import openai
import pytest

from tests.gateway.calls import error
from tests.gateway.openai_shapes import check

SLASHED = """
providers: {openai: {base_url: "{fake}/v1"}}
agents:
  - {name: team/writer, provider: openai, model: gpt}
  - {name: "agent: with ünïcode & space", provider: openai, model: gpt}
"""


def test_it_lists_the_agents_in_the_files_order(server, fake):
    listed = check("models", httpx2.get(f"{server}/v1/models").json())
    names = [model["id"] for model in listed["data"]]
    assert names == ["assistant", "claude", "forgetful", "tuned"]
    assert {model["owned_by"] for model in listed["data"]} == {"coulisse"}
    assert fake.requests == []


def test_the_client_lists_them(client):
    assert next(model.id for model in client.models.list()) == "assistant"


def test_it_shows_one(server, client, fake):
    check("model", httpx2.get(f"{server}/v1/models/claude").json())
    assert client.models.retrieve("claude").id == "claude"
    assert fake.requests == []


@pytest.mark.parametrize("name", ["team/writer", "agent: with ünïcode & space"])
def test_a_name_may_hold_what_a_url_escapes(client, configure, name):
    configure(SLASHED)
    assert client.models.retrieve(name).id == name


def test_an_unknown_one_is_not_found(server, client):
    said = error(httpx2.get(f"{server}/v1/models/claud"), 404)
    assert said["code"] == "model_not_found"
    assert "did you mean 'claude'?" in said["message"]
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def test_it_only_lists(server):
    response = httpx2.post(f"{server}/v1/models", json={})
    error(response, 405)
    assert response.headers["allow"] == "GET"


def test_the_provider_and_its_model_are_not_told(server):
    text = httpx2.get(f"{server}/v1/models").text
    assert "gpt-test" not in text
    assert "secret" not in text


def test_an_edit_of_the_yaml_is_listed_at_once(server, client, configure):
    configure(SLASHED)
    assert next(m.id for m in client.models.list()) == "team/writer"
