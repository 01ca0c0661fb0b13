"""The list of models; no model is called."""

import anthropic
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


def test_models_are_listed_in_file_order(server, fake):
    listed = check("models", httpx2.get(f"{server}/v1/models").json())
    names = [model["id"] for model in listed["data"]]
    assert names == ["assistant", "claude", "forgetful", "tuned"]
    assert {model["owned_by"] for model in listed["data"]} == {"coulisse"}
    assert fake.requests == []


def test_official_client_lists_models(client):
    assert next(model.id for model in client.models.list()) == "assistant"


def test_model_can_be_retrieved(server, client, fake):
    check("model", httpx2.get(f"{server}/v1/models/claude").json())
    assert client.models.retrieve("claude").id == "claude"
    assert fake.requests == []


@pytest.mark.parametrize("name", ["team/writer", "agent: with ünïcode & space"])
def test_model_name_may_need_url_escaping(client, configure, name):
    configure(SLASHED)
    assert client.models.retrieve(name).id == name


def test_unknown_model_is_404(server, client):
    refusal = error(httpx2.get(f"{server}/v1/models/claud"), 404)
    assert refusal["code"] == "model_not_found"
    assert "did you mean 'claude'?" in refusal["message"]
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def test_list_allows_only_get(server):
    response = httpx2.post(f"{server}/v1/models", json={})
    error(response, 405)
    assert response.headers["allow"] == "GET"


def test_list_hides_provider_and_model(server):
    text = httpx2.get(f"{server}/v1/models").text
    assert "gpt-test" not in text
    assert "secret" not in text


def test_yaml_edit_is_listed_at_once(server, client, configure):
    configure(SLASHED)
    assert next(m.id for m in client.models.list()) == "team/writer"


# In the shape of Anthropic's API.


@pytest.fixture
def anthropic_client(server):
    with anthropic.Anthropic(base_url=server, api_key="unused", max_retries=0) as sdk:
        yield sdk


def test_anthropic_client_lists_models_by_page(anthropic_client):
    models = anthropic_client.models
    page = models.list(limit=3)
    assert [model.id for model in page.data] == ["assistant", "claude", "forgetful"]
    assert (page.first_id, page.last_id) == ("assistant", "forgetful")
    assert page.has_more
    assert [m.id for m in models.list(limit=1)][2:] == ["forgetful", "tuned"]
    before = models.list(limit=1, before_id="forgetful")
    assert ([m.id for m in before.data], before.has_more) == (["claude"], True)
    first = page.data[0]
    type(first).model_validate(first.model_dump(), strict=True)
    assert (first.type, first.display_name) == ("model", "assistant")
    assert first.created_at.tzinfo is not None


def test_anthropic_client_retrieves_a_model(anthropic_client):
    assert anthropic_client.models.retrieve("claude").id == "claude"
    with pytest.raises(
        anthropic.NotFoundError, match="did you mean 'claude'"
    ) as caught:
        anthropic_client.models.retrieve("claud")
    assert caught.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError, match="after_id names no model"):
        anthropic_client.models.list(after_id="claud")
