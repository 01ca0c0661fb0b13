"""Agents create and list background tasks of their user."""

import json
from typing import Any

import openai
import pytest

from access.tokens import api_tokens
from access.users import identity
from core.ids import UserId
from memory.models import StoredMessage
from tasks.models import Task
from tasks.queue.task_spec import TaskSpec
from telemetry.models import ToolCall
from testing.scripted_provider import FakeProvider
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway.calls import ask
from tests.tasks.conftest import RunnerHarness
from turns.agent_tasks.task_requests import MAX_GENERATION

pytestmark = pytest.mark.database

WITH_TASKS = CONFIG + "\ntasks: {}\n"
TOOL = {"type": "function", "function": {"name": "add", "parameters": {}}}


def tools(body: Any) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", [])]


def answer(body: Any) -> Any:
    """Return the result of the last tool call."""
    text = body["messages"][-1]["content"]
    return text if text.startswith("Error") else json.loads(text)


def tasks_of(user: str) -> list[Task]:
    rows = Task.objects.without_extractions().filter(
        user_id=identity.derive_user_id(user)
    )
    return list(rows.order_by("created_at"))


@pytest.fixture
def chat(client: openai.OpenAI, configure) -> openai.OpenAI:
    configure(WITH_TASKS)
    return client


def test_agent_dispatches_a_background_task(
    chat: openai.OpenAI, fake: FakeProvider, user: str
):
    fake.call_tool("dispatch_task", {"agent": "tuned", "prompt": "Find out."})
    reply = ask(chat, user, "Look into it.")

    [task] = tasks_of(user)
    assert answer(fake.bodies[1]) == {"task_id": str(task.pk)}
    assert (task.state, task.agent, task.prompt) == ("queued", "tuned", "Find out.")
    turn_id = reply.id.removeprefix("chatcmpl-")
    assert task.origin.replace("-", "") == f"turn:{turn_id}"
    assert ToolCall.objects.get(turn=turn_id).kind == "task"


def test_tools_match_the_documentation(
    chat: openai.OpenAI, fake: FakeProvider, user: str
):
    ask(chat, user, "hi")
    offered = {
        tool["function"]["name"]: tool["function"]["parameters"]
        for tool in fake.bodies[0]["tools"]
    }
    assert offered == {
        "dispatch_task": {
            "type": "object",
            "properties": {"agent": {"type": "string"}, "prompt": {"type": "string"}},
            "required": ["agent", "prompt"],
        },
        "tasks_status": {
            "type": "object",
            "properties": {
                "limit": {"type": "integer", "minimum": 1, "maximum": 100},
                "state": {
                    "type": "string",
                    "enum": ["queued", "running", "done", "errored"],
                },
            },
            "required": [],
        },
    }


@pytest.mark.parametrize(
    ("of_agent", "of_all", "offered"),
    [
        ("", "tasks: {}", {"dispatch_task", "tasks_status"}),
        ("", "", {"dispatch_task", "tasks_status"}),
        ("", "tasks: {tools: false}", set()),
        ("", "tasks: {enabled: false}", set()),
        ("task_tools: false", "tasks: {}", set()),
        ("task_tools: false", "", set()),
        (
            "task_tools: true",
            "tasks: {tools: false}",
            {"dispatch_task", "tasks_status"},
        ),
        ("task_tools: [tasks_status]", "tasks: {tools: false}", {"tasks_status"}),
    ],
)
def test_configuration_decides_which_agents_have_task_tools(
    client, fake, user, configure, of_agent, of_all, offered
):
    agent = f"    seed: 7\n    {of_agent}" if of_agent else "    seed: 7"
    configure(CONFIG.replace("    seed: 7", agent) + f"\n{of_all}\n", task_tools=True)
    ask(client, user, "hi", agent="tuned")
    assert set(tools(fake.bodies[0])) == offered


def test_incognito_turn_has_no_task_tools(chat, fake, user):
    ask(chat, user, "hi", metadata={"memory": "incognito"})
    assert tools(fake.bodies[0]) == []


def test_tool_choice_none_excludes_task_tools_that_no_agent_asks_for(
    chat, configure, fake, user
):
    ask(chat, user, "hi", tools=[TOOL], tool_choice="none")
    assert tools(fake.bodies[0]) == ["add"]
    configure(CONFIG.replace("    seed: 7", "    seed: 7\n    task_tools: true"))
    ask(chat, user, "hi", agent="tuned", tools=[TOOL], tool_choice="none")
    assert tools(fake.bodies[1]) == ["dispatch_task", "tasks_status"]


def test_models_without_tools_answer_without_task_tools(chat, configure, fake, user):
    configure(WITH_TASKS.replace("gpt-test", "gemma"))
    fake.fail(400, "gemma does not support tools")
    for _ in range(2):
        fake.reply("Hello.")
        reply = ask(chat, user, "hi")
        assert reply.choices[0].message.content == "Hello."
    # The model is not offered tools again.
    assert [bool(tools(body)) for body in fake.bodies] == [True, False, False]


def test_tools_of_the_client_are_never_dropped(chat, fake, user):
    fake.fail(400, "gemma does not support tools")
    with pytest.raises(openai.BadRequestError, match="does not support tools"):
        ask(chat, user, "hi", tools=[TOOL])
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"agent": "nobody", "prompt": "x"}, "'nobody'"),
        ({"agent": "tuned", "prompt": " "}, "prompt is empty"),
        ({"agent": "tuned"}, "prompt"),
        ({"agent": "tuned", "prompt": "x", "user": "eve"}, "user"),
        ({"agent": "tuned", "prompt": "x" * 200_001}, "200000"),
    ],
)
def test_invalid_task_is_reported_to_the_model(chat, fake, user, arguments, complaint):
    fake.call_tool("dispatch_task", arguments)
    ask(chat, user, "hi")
    assert complaint in answer(fake.bodies[1])
    assert tasks_of(user) == []


@pytest.mark.parametrize("name", ["claude", "claud"])
def test_dispatch_hides_agents_forbidden_to_the_token(
    chat, fake, user, configure, name
):
    secret = api_tokens.create_token("test", user, agents=["tuned"], by=ADA)[1]
    listed = []
    for text in (WITH_TASKS, WITH_TASKS.replace("name: claude", "name: other")):
        configure(text + "\nauth: {proxy: {tokens: {}}}\n")
        fake.call_tool("dispatch_task", {"agent": name, "prompt": "Go."})
        ask(chat.with_options(api_key=secret), user, "Look.", agent="tuned")
        listed.append(answer(fake.bodies[-1]))
        assert "claude" not in json.dumps(fake.bodies[-1]["tools"])
    assert listed[0] == listed[1]
    assert f"The model '{name}' does not exist" in listed[0]
    assert "did you mean" not in listed[0]
    assert tasks_of(user) == []


def test_agent_sees_only_tasks_of_its_user(chat, fake, user):
    own, others = identity.derive_user_id(user), identity.derive_user_id(f"{user}-b")
    for owner, prompt in ((others, "theirs"), (own, "first"), (own, "p" * 300)):
        Task.objects.enqueue([TaskSpec("agent", owner, "tuned", prompt)])
    Task.objects.enqueue([TaskSpec("judge", own, "tuned", "not theirs to see")])
    Task.objects.filter(user_id=own, prompt="first").update(
        state="done", result="Found."
    )

    fake.call_tool("tasks_status", {})
    fake.call_tool("tasks_status", {"state": "done", "limit": 1})
    ask(chat, user, "What is going on?")

    newest, oldest = answer(fake.bodies[1])["tasks"]
    assert (newest["state"], newest["agent"]) == ("queued", "tuned")
    assert newest["prompt"] == "p" * 199 + "…"
    assert newest["created_at"].endswith("Z")
    assert oldest["result"] == "Found."
    assert answer(fake.bodies[2])["tasks"] == [oldest]


def test_operators_agent_sees_tasks_of_all_users(chat, configure, fake, user):
    configure(
        CONFIG.replace("    seed: 7", "    seed: 7\n    task_scope: all"),
        task_tools=True,
    )
    other = identity.derive_user_id(f"{user}-b")
    prompt = f"Of another user: {other}"
    Task.objects.enqueue([TaskSpec("agent", other, "claude", prompt)])
    Task.objects.filter(user_id=other).update(state="done", result="A private reply.")
    for agent in ("tuned", "assistant"):
        fake.call_tool("tasks_status", {"limit": 100})
        ask(chat, user, "What is going on?", agent=agent)
    tasks = answer(fake.bodies[1])["tasks"]
    [listed] = [task for task in tasks if task["prompt"] == prompt]
    assert (listed["agent"], listed["state"]) == ("claude", "done")
    assert "result" not in listed
    assert answer(fake.bodies[3])["tasks"] == []


def test_dispatched_task_has_its_own_thread(
    chat, fake, user, task_runner: RunnerHarness, configure
):
    configure(WITH_TASKS.replace("tasks: {}", "tasks: {}\nmemory: {user_state: {}}"))
    fake.call_tool("dispatch_task", {"agent": "tuned", "prompt": "Find out."})
    fake.reply("It is begun.")
    ask(chat, user, "Look into it.")
    [task] = tasks_of(user)
    fake.reply("Found.")
    task_runner.check_queue()
    assert task_runner.wait_for_end(task).result == "Found."
    stored = StoredMessage.objects.filter(thread__user_id=identity.derive_user_id(user))
    apart = stored.exclude(thread__name="").order_by("position")
    assert [row.text for row in apart] == ["Find out.", "Found."]
    assert apart[0].thread.name == f"task-{task.pk}"
    threads = stored.filter(thread__name="").values_list("thread", flat=True)
    jobs = Task.objects.extractions().filter(user_id=identity.derive_user_id(user))
    assert [job.payload["thread"] for job in jobs] == [threads[0]]


def test_nested_dispatch_is_limited(
    configure, task_runner: RunnerHarness, fake: FakeProvider, user_id: UserId
):
    configure(WITH_TASKS)
    fake.call_tool("dispatch_task", {"agent": "tuned", "prompt": "Again."})
    payload = {"generation": MAX_GENERATION - 1}
    task_runner.run_task(TaskSpec("agent", user_id, "tuned", "Go on.", payload=payload))
    last = Task.objects.get(user_id=user_id, prompt="Again.")
    assert last.payload["generation"] == MAX_GENERATION

    task_runner.wait_for_end(last)
    fake.call_tool("dispatch_task", {"agent": "tuned", "prompt": "Once more."})
    payload = {"generation": MAX_GENERATION}
    task_runner.run_task(TaskSpec("agent", user_id, "tuned", "Go on.", payload=payload))
    assert "8 tasks" in answer(fake.bodies[-1])
    assert not Task.objects.filter(user_id=user_id, prompt="Once more.").exists()
