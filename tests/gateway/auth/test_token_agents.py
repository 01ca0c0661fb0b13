"""API tokens that are limited to some agents."""

import httpx2
import pytest

from access.tokens import api_tokens
from access.users import identity
from tasks.models import Task
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway import mcp_calls
from tests.gateway.calls import PATH, bearer, body, error

pytestmark = pytest.mark.database

EXPERIMENTS = """
experiments:
  - name: assistants
    strategy: split
    variants: [{agent: assistant}, {agent: claude}]
"""
TOKENS = "auth: {proxy: {tokens: {}}}\n"
WHOLE = CONFIG + EXPERIMENTS + TOKENS
BARE = (
    CONFIG.partition("agents:")[0]
    + "agents: [{name: tuned, provider: openai, model: gpt-test}]\n"
    + TOKENS
)
"""The same server without the agents that the token excludes."""
HIDDEN = ["assistant", "claude", "assistants"]
NEARLY = ["assistan", "claud", "assistants2"]


@pytest.fixture
def http(running, user, database):
    _, secret = api_tokens.create_token("test", user, agents=["tuned"], by=ADA)
    headers = bearer(secret)
    with httpx2.Client(
        base_url=running, timeout=60, verify=False, headers=headers
    ) as http:
        yield http


def call_endpoints(http, name: str, user: str) -> list[httpx2.Response]:
    """Return the responses of all endpoints with an agent's name."""
    return [
        http.post(PATH, json=body(user, agent=name)),
        http.post(PATH, json=body(user, agent=name, stream=True)),
        http.get(f"/v1/models/{name}"),
        http.post(
            "/v1/realtime/client_secrets",
            json={"session": {"type": "realtime", "model": name}},
        ),
        http.post(
            "/v1/realtime/tool_calls",
            json={"model": name, "call_id": "call_1", "name": "search_memory"},
        ),
        http.post("/v1/tasks", json={"agent": name, "prompt": "Go."}),
        http.post("/mcp", json=mcp_calls.call(name, message="hi")),
    ]


def status_and_body(answer: httpx2.Response) -> tuple[int, object]:
    return answer.status_code, answer.json()


@pytest.mark.parametrize("name", [*HIDDEN, *NEARLY])
def test_hidden_agent_is_answered_like_an_unknown_one(
    configure, fake, http, user, name
):
    configure(WHOLE)
    hidden = [status_and_body(answer) for answer in call_endpoints(http, name, user)]
    configure(BARE)
    assert hidden == [
        status_and_body(answer) for answer in call_endpoints(http, name, user)
    ]
    assert fake.requests == []
    assert not Task.objects.filter(user_id=identity.derive_user_id(user)).exists()


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_agent_is_not_found(configure, http, user, name):
    configure(WHOLE)
    *answers, task, tool = call_endpoints(http, name, user)
    for answer in answers:
        refusal = error(answer, 404)
        assert (refusal["code"], refusal["param"]) == ("model_not_found", "model")
    refusal = error(task, 404)
    assert (refusal["code"], refusal["param"]) == ("model_not_found", "agent")
    assert "Unknown tool" in tool.json()["error"]["message"]


@pytest.mark.parametrize("name", NEARLY)
def test_suggestion_names_no_hidden_agent(configure, http, user, name):
    configure(WHOLE)
    for answer in call_endpoints(http, name, user):
        assert "did you mean" not in answer.text
    suggested = call_endpoints(http, "tunde", user)
    assert all("did you mean 'tuned'?" in answer.text for answer in suggested)


def test_token_for_an_experiment_cannot_call_its_variants(
    configure, fake, running, user
):
    configure(WHOLE)
    _, secret = api_tokens.create_token("test", user, agents=["assistants"], by=ADA)
    with httpx2.Client(
        base_url=running, timeout=60, verify=False, headers=bearer(secret)
    ) as http:
        fake.reply("hello")
        assert http.post(PATH, json=body(user, agent="assistants")).status_code == 200
        refused = http.post(PATH, json=body(user, agent="assistant"))
        assert error(refused, 404)["code"] == "model_not_found"


def test_model_name_is_quoted_short(configure, http, user):
    configure(WHOLE)
    refusal = error(http.post(PATH, json=body(user, agent="a\n" * 120)), 404)
    assert len(refusal["message"]) < 300
    assert "\n" not in refusal["message"]
