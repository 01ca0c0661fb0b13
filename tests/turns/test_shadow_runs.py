"""Shadow runs: other variants run a turn in the background, unseen by users."""

from contextlib import aclosing

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

from access.models import UsageCounter
from access.users import identity
from core.events import TextDelta
from core.ids import new_turn_id
from core.messages import Message
from judges.models import Score
from memory.models import StoredMessage as MessageRow
from providers import sync_bridge
from tasks.models import Task
from telemetry.models import Turn
from telemetry.storage import turn_store
from testing.wires import ScriptedAnswer
from tests.conftest import CONFIG, serve
from tests.gateway.calls import ask
from tests.judges.sample_judges import JUDGES, answer, is_judging
from tests.tasks.conftest import TIMEOUT_SECONDS, wait_until
from turns import flow
from turns.preparation import options
from turns.shadow_runs import turn_snapshot
from turns.turn import TurnRequest

pytestmark = pytest.mark.database

STAGE = (
    CONFIG
    + """
  - {name: calm, provider: openai, model: gpt-calm, preamble: Be calm.}
  - name: keen
    provider: openai
    model: gpt-keen
    preamble: Be keen.
    temperature: 0.3
    judges: [quality]
    memory_tools: true
    MORE
"""
    + JUDGES
    + """
experiments:
  - name: trial
    strategy: shadow
    primary: calm
    sampling_rate: RATE
    variants: [{agent: calm}, {agent: keen}]
memory: {user_state: false}
"""
)


def config_text(*, rate: float = 1, more: str = "") -> str:
    return STAGE.replace("RATE", str(rate)).replace("MORE", more or "seed: 7")


def reply_by_model(request) -> ScriptedAnswer:
    if is_judging(request):
        return ScriptedAnswer([answer(accuracy=9, tone=7)])
    return ScriptedAnswer([f"{request.body['model']} says so."])


@pytest.fixture
def worker(task_runner, configure, fake):
    configure(config_text())
    fake.default = reply_by_model
    return task_runner


def shadows_of(user: str) -> list[Task]:
    rows = Task.objects.filter(user_id=identity.derive_user_id(user), kind="shadow")
    return list(rows.order_by("created_at"))


def wait_for_shadow_run(worker, user: str) -> Task:
    """Return the user's only shadow run, after it has ended."""
    (task,) = shadows_of(user)
    worker.check_queue()
    return worker.wait_for_end(task)


def turns_of(user: str, **fields) -> list[Turn]:
    rows = Turn.objects.filter(user_id=identity.derive_user_id(user), **fields)
    return list(rows.order_by("started_at"))


def messages_of(user: str) -> list[tuple[str, str]]:
    rows = MessageRow.objects.filter(thread__user_id=identity.derive_user_id(user))
    return list(rows.order_by("position").values_list("role", "text"))


def spent(user: str) -> int:
    subject = f"user:{identity.derive_user_id(user).hex}"
    return sum(
        UsageCounter.objects.filter(subject=subject).values_list("tokens", flat=True)
    )


def test_other_variants_get_the_same_request_with_their_preamble(
    worker, client, fake, user
):
    ask(client, user, "First?", agent="trial", temperature=0.9)
    task = wait_for_shadow_run(worker, user)
    assert (task.state, task.agent, task.error) == ("done", "keen", "")
    served, shadow = fake.bodies[:2]
    assert shadow["model"] == "gpt-keen"
    assert [m["content"] for m in shadow["messages"]] == ["Be keen.", "First?"]
    assert (shadow["temperature"], shadow["seed"]) == (0.9, 7)
    assert served["messages"][0]["content"] == "Be calm."


def test_shadow_run_uses_the_real_conversation(worker, client, fake, user):
    ask(client, user, "First?", agent="trial")
    wait_for_shadow_run(worker, user)
    ask(client, user, "Second?", agent="trial")
    task = shadows_of(user)[-1]
    worker.check_queue()
    worker.wait_for_end(task)
    [shadow] = [
        body
        for body in fake.bodies
        if body["model"] == "gpt-keen" and "Second?" in str(body)
    ]
    assert [m["content"] for m in shadow["messages"]] == [
        "Be keen.",
        "First?",
        "gpt-calm says so.",
        "Second?",
    ]


def test_shadow_run_stores_only_its_record(worker, client, user):
    completion = ask(client, user, "First?", agent="trial")
    messages, used = messages_of(user), spent(user)
    assert messages == [("user", "First?"), ("assistant", "gpt-calm says so.")]
    task = wait_for_shadow_run(worker, user)
    assert messages_of(user) == messages
    assert spent(user) == used
    [served] = turns_of(user, origin="chat")
    [shadow] = turns_of(user, origin="shadow")
    assert f"chatcmpl-{served.pk.hex}" == completion.id
    assert (shadow.agent, shadow.experiment) == ("keen", "trial")
    assert shadow.request_id == served.request_id
    assert shadow.user_message == "First?"
    assert shadow.input_tokens > 0
    assert task.turn_id == served.pk
    # The task keeps no copy of the messages.
    assert task.payload == {"experiment": "trial"}


def test_shadow_run_is_judged_by_its_own_reply(worker, client, fake, user):
    ask(client, user, "First?", agent="trial")
    wait_for_shadow_run(worker, user)
    [judging] = Task.objects.filter(user_id=identity.derive_user_id(user), kind="judge")
    worker.wait_for_end(judging)
    [shadow] = turns_of(user, origin="shadow")
    found = Score.objects.filter(user_id=identity.derive_user_id(user))
    assert set(found.values_list("turn_id", "agent", "experiment", "origin")) == {
        (shadow.pk, "keen", "trial", "shadow")
    }
    asked = str(next(b for b in fake.bodies if "judge" in b["model"]))
    assert "gpt-keen says so." in asked
    assert "gpt-calm" not in asked


def test_only_the_configured_share_is_shadowed(
    worker, configure, client, user, monkeypatch
):
    configure(config_text(rate=0.25))
    drawn = iter([0.1, 0.25, 0.9, 0.2499])
    monkeypatch.setattr("judges.runs.judge_queue.random.random", lambda: next(drawn))
    for _ in range(4):
        ask(client, user, "First?", agent="trial")
    assert len(shadows_of(user)) == 2


def test_rate_of_zero_shadows_nothing(worker, configure, client, user):
    configure(config_text(rate=0))
    ask(client, user, "First?", agent="trial")
    assert shadows_of(user) == []


@pytest.mark.parametrize(
    "more",
    [
        {"agent": "trial", "metadata": {"memory": "incognito"}},
        {"agent": "calm"},
    ],
)
def test_excluded_requests_are_not_shadowed(worker, client, user, more):
    ask(client, user, "First?", **more)
    assert shadows_of(user) == []


def test_incognito_turn_with_writing_tools_is_not_shadowed(worker, user):
    request = TurnRequest(
        turn_id=new_turn_id(),
        agent="trial",
        user_id=identity.derive_user_id(user),
        messages=[Message("user", "First?")],
        options=options.read_options({"memory": "incognito"}),
        parameters={},
        origin="smoke",
        on_end=lambda reply, calls: None,
    )

    async def take() -> str:
        async with aclosing(flow.run(request)) as events:
            return "".join([e.text async for e in events if isinstance(e, TextDelta)])

    assert (
        sync_bridge.run_sync(take(), timeout_seconds=TIMEOUT_SECONDS)
        == "gpt-calm says so."
    )
    assert shadows_of(user) == []


def test_turn_waiting_for_its_client_is_not_shadowed(worker, client, fake, user):
    fake.call_tool("look", {})
    function = {"name": "look", "parameters": {"type": "object"}}
    completion = ask(
        client,
        user,
        "First?",
        agent="trial",
        tools=[{"type": "function", "function": function}],
    )
    assert completion.choices[0].finish_reason == "tool_calls"
    assert shadows_of(user) == []


def test_response_format_is_enforced(worker, client, fake, user):
    fake.reply('{"a": 1}')
    ask(client, user, "First?", agent="trial", response_format={"type": "json_object"})
    fake.reply("Prose.")
    fake.reply('{"b": 2}')
    assert wait_for_shadow_run(worker, user).state == "done"
    assert "single valid JSON object" in fake.bodies[1]["messages"][0]["content"]
    assert fake.bodies[2]["messages"][-2]["content"] == "Prose."


def test_failed_shadow_run_is_recorded(worker, client, fake, user):
    ask(client, user, "First?", agent="trial")
    fake.default = None
    fake.fail(401)
    task = wait_for_shadow_run(worker, user)
    assert task.state == "errored"
    assert "401" in task.error or "API key" in task.error or "openai" in task.error
    [shadow] = turns_of(user, origin="shadow")
    assert (shadow.outcome, shadow.agent) == ("error", "keen")
    assert task.payload == {"experiment": "trial"}
    assert messages_of(user)[-1] == ("assistant", "gpt-calm says so.")
    # No copy of the messages is kept, so a retry has nothing to run.
    assert Task.objects.filter(pk=task.pk).requeue() == 1
    worker.check_queue()
    assert worker.wait_for_end(task).result == "the messages of the turn are deleted"


@pytest.mark.parametrize("status", [200, 401])
def test_erasure_during_a_shadow_run_leaves_nothing(worker, client, fake, user, status):
    ask(client, user, "First?", agent="trial")
    fake.answer(ScriptedAnswer(["Late."], status=status, hang="headers"))
    worker.check_queue()
    fake.wait(lambda: len(fake.requests) == 2)
    Task.objects.filter(user_id=identity.derive_user_id(user)).delete()
    fake.release()
    wait_until(lambda: worker.is_idle)
    assert turns_of(user, origin="shadow") == []


def test_removed_variant_is_not_run(worker, configure, client, user):
    ask(client, user, "First?", agent="trial")
    configure(CONFIG)
    task = wait_for_shadow_run(worker, user)
    assert task.result == "the variant is no longer configured"
    assert task.payload == {"experiment": "trial"}


def test_shadow_runs_are_hidden_from_users(worker, configure, client, user, running):
    ask(client, user, "First?", agent="trial")
    wait_for_shadow_run(worker, user)
    owner = identity.derive_user_id(user)
    listed = Turn.objects.filter(user_id=owner).started_by_users()
    assert [turn.agent for turn in listed] == ["calm"]
    [shadow] = turns_of(user, origin="shadow")
    assert turn_store.load_record(shadow.pk, owner) is None


class Shop:
    """An MCP server with a writing and a read-only tool."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.mcp = MCPServer("shop")

        @self.mcp.tool(annotations=ToolAnnotations(read_only_hint=True))
        def price(item: str) -> str:
            self.called.append("price")
            return "five"

        @self.mcp.tool()
        def buy(item: str) -> str:
            self.called.append("buy")
            return "bought"


def test_only_readonly_tools_are_called(worker, configure, client, fake, user):
    shop = Shop()
    with serve(shop.mcp.streamable_http_app(host="127.0.0.1")) as url:
        more = "mcp_tools: [{server: shop}]"
        configure(
            config_text(more=more)
            + f"mcp: {{shop: {{url: '{url}/mcp', oauth: false}}}}\n"
        )
        ask(client, user, "First?", agent="trial")
        fake.call_tool("buy", {"item": "tea"})
        fake.call_tool("price", {"item": "tea"})
        fake.call_tool("save_memory", {"content": "Likes tea."})
        fake.reply("Tea is five.")
        assert wait_for_shadow_run(worker, user).state == "done"
    assert shop.called == ["price"]
    completion = [
        m["content"] for b in fake.bodies for m in b["messages"] if m["role"] == "tool"
    ]
    assert [
        ("Not available in a shadow run" in text) for text in dict.fromkeys(completion)
    ] == [True, False]
    offered = {t["function"]["name"] for t in fake.bodies[1]["tools"]}
    assert {"buy", "price", "save_memory", "search_memory"} <= offered


@pytest.mark.parametrize(
    ("history", "has_tools"), [("client", False), ("server", True)]
)
def test_memory_tools_are_offered_if_the_thread_is_known(
    worker, configure, client, fake, user, history, has_tools
):
    text = config_text()
    configure(text.replace("user_state: false", "user_state: false, scope: thread"))
    ask(client, user, "First?", agent="trial", metadata={"history": history})
    assert wait_for_shadow_run(worker, user).state == "done"
    tools = fake.bodies[1].get("tools", [])
    offered = {tool["function"]["name"] for tool in tools}
    assert ("save_memory" in offered) is has_tools


def test_oversized_prompt_is_not_copied(worker, client, user, monkeypatch):
    monkeypatch.setattr("turns.shadow_runs.shadow_queue.MAX_PAYLOAD_SIZE", 10)
    ask(client, user, "A question of some length?", agent="trial")
    assert shadows_of(user) == []


def test_turn_snapshot_round_trips():
    snapshot = turn_snapshot.TurnSnapshot(
        experiment="e",
        messages=[turn_snapshot.Message("user", [{"type": "text", "text": "hi"}])],
        options={"thread": "t"},
        parameters={"temperature": 0.0},
        tools=[{"type": "function"}],
        response_format={"type": "json_object"},
        is_thread_known=False,
    )
    assert turn_snapshot.TurnSnapshot.from_json(snapshot.to_json()) == snapshot
