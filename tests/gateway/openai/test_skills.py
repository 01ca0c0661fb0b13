"""Skills in a complete turn."""

import json

import pytest

from access.users import identity
from agents.skills import skill_registry
from telemetry.models import Turn
from telemetry.storage import turn_store
from tests.gateway.calls import ask, body, plain, post, until

pytestmark = pytest.mark.database

HOUSE = """
providers:
  openai: {api_key: sk-openai-secret, base_url: "{fake}/v1", retries: 0}
  anthropic: {api_key: sk-anthropic-secret, base_url: "{fake}", retries: 0}
skills: {dir: playbooks}
agents:
  - {name: recruiter, provider: openai, model: m, skills: [review, gone]}
  - {name: claude, provider: anthropic, model: m, skills: [review]}
  - {name: both, provider: openai, model: m, skills: [pay, review]}
  - {name: none, provider: openai, model: m}
"""
FILE = ("skill_file", {"skill": "review", "path": "rubric.md"})


@pytest.fixture
def folder(tmp_path):
    """The directory of skills: the second has a file that the first lacks."""
    folder = tmp_path / "playbooks"
    for name in ("review", "pay"):
        (folder / name).mkdir(parents=True)
        text = f"---\ndescription: About {name}.\n---\nHow to {name}."
        (folder / name / "SKILL.md").write_text(text)
    (folder / "review/rubric.md").write_text("Ten points.")
    (folder / "pay/budget.md").write_text("A secret.")
    return folder


@pytest.fixture
def server(running, configure, folder):
    configure(HOUSE)
    return running


def offered(request) -> list[str]:
    """Return the tools in a provider request, on either wire."""
    tools = request.body.get("tools", [])
    return [tool.get("function", tool)["name"] for tool in tools]


def results(request) -> list[str]:
    """Return the tool results in a provider request, on either wire."""
    found = []
    for message in request.body["messages"]:
        if message["role"] == "tool":
            found.append(message["content"])
        parts = message["content"] if isinstance(message["content"], list) else ()
        for part in parts:
            if part["type"] == "tool_result":
                found.append(plain(part["content"]))
    return found


@pytest.mark.parametrize("agent", ["recruiter", "claude"])
@pytest.mark.parametrize("stream", [False, True])
def test_model_reads_a_skill_and_its_file(server, fake, user, agent, stream):
    fake.call_tool("review")
    fake.call_tool(*FILE)
    fake.reply("Seven points.")
    answer = post(server, body(user, "Judge it.", agent=agent, stream=stream))
    assert "Seven points." in answer.text
    assert "Ten points." not in answer.text
    assert offered(fake.requests[0]) == ["review", "skill_file"]
    listed = "Files of this skill, to read with skill_file:\n- rubric.md (11 bytes)"
    assert results(fake.requests[2]) == [f"How to review.\n\n{listed}", "Ten points."]


def test_record_contains_skill_lookups(server, client, fake, user):
    fake.call_tool(*FILE)
    ask(client, user, agent="recruiter")
    until(lambda: Turn.objects.filter(user_id=identity.derive_user_id(user)))
    turn = turn_store.load_record(
        Turn.objects.get(user_id=identity.derive_user_id(user)).pk
    )
    (call,) = [call for call in turn.calls if hasattr(call, "result")]
    assert (call.name, call.kind, call.result) == (
        "skill_file",
        "skill",
        "Ten points.",
    )
    assert json.loads(call.arguments) == FILE[1]


def test_agents_see_only_their_skills(server, client, fake, user):
    for agent in ("recruiter", "both", "none"):
        ask(client, user, agent=agent)
    assert [offered(request) for request in fake.requests] == [
        ["review", "skill_file"],
        ["pay", "review", "skill_file"],
        [],
    ]


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ({"skill": "pay", "path": "budget.md"}, "Error: there is no skill 'pay'"),
        (
            {"skill": "review", "path": "../pay/budget.md"},
            "Error: '../pay/budget.md' is outside",
        ),
        ({"skill": "review"}, "Error: path: Field required"),
        ("[]", "Error: the arguments must be a JSON object"),
    ],
)
def test_unknown_skill_file_is_answered_to_the_model(
    server, client, fake, user, arguments, result
):
    fake.call_tool("skill_file", arguments)
    fake.reply("Well.")
    ask(client, user, agent="recruiter")
    (answer,) = results(fake.requests[1])
    assert answer.startswith(result)
    assert "secret" not in str(fake.bodies[1])


def test_skill_edit_applies_to_the_next_request(
    server, client, fake, user, folder, monkeypatch
):
    monkeypatch.setattr(skill_registry, "POLL_SECONDS", 0.01)
    ask(client, user, agent="recruiter")
    (folder / "review/SKILL.md").rename(folder / "review/notes.md")
    (folder / "gone").mkdir()
    (folder / "gone/SKILL.md").write_text("Back.")

    def offered_tools():
        ask(client, user, agent="recruiter")
        return offered(fake.requests[-1])

    assert until(lambda: offered_tools() == ["gone", "skill_file"])
