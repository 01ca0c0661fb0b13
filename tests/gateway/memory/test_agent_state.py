"""The state of agents: shown in prompts, changed by the tool and by users."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from access.users import identity
from memory.models import AgentState, Thread
from memory.transcript import message_deletion
from tests.gateway.calls import ask, body, post, prompt
from tests.gateway.memory_client import MemoryClient, ok

pytestmark = pytest.mark.database

CONFIG = """
providers:
  openai: {base_url: "{fake}/v1", api_key: sk-secret, retries: 0}
agents:
  - name: coach
    provider: openai
    model: gpt-test
    preamble: You are a coach.
    subagents: [assistant]
    state:
      progress: {reducer: merge}
      concerns: {reducer: union, max: 100}
      steps: {reducer: last, n: 2}
  - name: assistant
    provider: openai
    model: gpt-test
    subagents: [coach]
  - name: keeper
    provider: openai
    model: gpt-test
    memory_tools: true
    state: {concerns: {reducer: union}}
memory:
  user_state: {embed_with: {provider: hash}}
"""
STATE = "State of this conversation"


@pytest.fixture
def server(running, configure) -> str:
    configure(CONFIG)
    return running


@pytest.fixture
def api(http, user) -> MemoryClient:
    return MemoryClient(http, user)


def say(client, user, text="hi", thread="t", agent="coach", **metadata):
    return ask(
        client, user, text, agent=agent, metadata={"thread_id": thread, **metadata}
    )


def update(fake, **values):
    """Let the model call the tool, and answer."""
    fake.call_tool("update_state", values)
    fake.reply("Noted.")


def read(api, thread="t", agent="coach", **query):
    return api.get(f"/v1/threads/{thread}/state", agent=agent, **query)["state"]


def change(api, thread="t", agent="coach", **fields):
    return api.send("PATCH", f"/v1/threads/{thread}/state", {"agent": agent, **fields})


def shown(request):
    """Return the texts of a prompt."""
    return "\n".join(text for _, text in prompt(request))


def rows(user):
    user_id = identity.derive_user_id(user)
    return AgentState.objects.filter(thread__user_id=user_id)


def last_result(fake):
    return fake.requests[-1].body["messages"][-1]["content"]


def test_tool_changes_what_the_next_turn_sees(client, fake, user, api):
    update(fake, concerns=["sleep"], progress={"week": 1})
    say(client, user)
    assert STATE not in shown(fake.requests[0])
    assert json.loads(last_result(fake)) == {
        "progress": {"week": 1},
        "concerns": ["sleep"],
    }
    update(fake, concerns=["work"], steps=["a", "b", "c"])
    say(client, user)
    block = fake.requests[2].body["messages"][1]
    assert block["role"] == "system"
    assert '- progress: {"week":1}\n- concerns: ["sleep"]\n' in block["content"]
    assert read(api) == {
        "progress": {"week": 1},
        "concerns": ["sleep", "work"],
        "steps": ["b", "c"],
    }


def test_calls_of_a_turn_build_on_each_other(client, fake, user, api):
    fake.call_tool("update_state", {"steps": ["a"]})
    fake.call_tool("update_state", {"steps": ["b"]})
    update(fake, steps=["c"], reset=["progress"])
    say(client, user)
    assert json.loads(last_result(fake)) == {"steps": ["b", "c"]}
    assert read(api) == {"steps": ["b", "c"]}


def test_invalid_call_is_answered_with_the_reason(client, fake, user):
    fake.call_tool("update_state", {"concern": ["sleep"]})
    fake.call_tool("update_state", {"reset": "concerns"})
    fake.reply("Sorry.")
    say(client, user)
    messages = fake.requests[-1].body["messages"]
    results = [each["content"] for each in messages if each["role"] == "tool"]
    assert "did you mean 'concerns'" in results[0]
    assert "'reset' must be a list" in results[1]
    assert not rows(user).exists()


def test_state_belongs_to_user_thread_and_agent(client, fake, user, api, http):
    update(fake, concerns=["sleep"])
    say(client, user)
    for other, thread, agent in [
        (user, "other", "coach"),
        (user, "t", "assistant"),
        (f"{user}-other", "t", "coach"),
    ]:
        fake.reply("ok")
        say(client, other, thread=thread, agent=agent)
        assert STATE not in shown(fake.requests[-1])
    stranger = MemoryClient(http, f"{user}-other")
    assert read(stranger) == {}
    stranger.refused("GET", "/v1/threads/other/state", 404, agent="coach")


def test_subagent_has_no_state(client, fake, user, api):
    update(fake, concerns=["sleep"])
    say(client, user)
    fake.call_tool("coach", {"message": "help"})
    fake.reply("from the coach")
    fake.reply("done")
    say(client, user, agent="assistant")
    nested = fake.requests[-2].body
    assert "coach" in str(nested["messages"][0])
    assert STATE not in str(nested)
    assert "update_state" not in str(nested)


@pytest.mark.parametrize("metadata", [{"memory": "incognito"}, {"history": "none"}])
def test_turns_without_history_neither_read_nor_write(
    client, fake, user, api, metadata
):
    update(fake, concerns=["sleep"])
    say(client, user)
    fake.reply("ok")
    say(client, user, **metadata)
    sent = fake.requests[-1].body
    assert STATE not in str(sent)
    assert "update_state" not in str(sent.get("tools"))
    assert read(api) == {"concerns": ["sleep"]}


def test_failed_turn_changes_nothing(server, client, fake, user):
    fake.reply("first")
    say(client, user)
    fake.call_tool("update_state", {"concerns": ["sleep"]})
    fake.fail(400)
    request = body(user, "hi", agent="coach", metadata={"thread_id": "t"})
    assert post(server, request).status_code == 400
    assert not rows(user).exists()


def test_parallel_turns_lose_no_change(server, client, fake, user, api):
    count = 8
    for number in range(count):
        fake.call_tool("update_state", {"concerns": [f"c{number}"]})
    for _ in range(count):
        fake.reply("ok")
    request = body(user, "hi", agent="coach", metadata={"thread_id": "t"})
    with ThreadPoolExecutor(count) as pool:
        sent = list(pool.map(lambda _: post(server, request), range(count)))
    assert {each.status_code for each in sent} == {200}
    assert sorted(read(api)["concerns"]) == [f"c{number}" for number in range(count)]


def test_accepted_change_is_stored_beside_one_of_another_turn(
    server, client, fake, user, api
):
    fake.reply("ok")
    say(client, user)
    fake.call_tool("update_state", {"concerns": ["a" * 10_000]})
    fake.reply("Noted.", hang="headers")
    request = body(user, "hi", agent="coach", metadata={"thread_id": "t"})
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(post, server, request)
        fake.wait(lambda: len(fake.requests) == 3)
        assert "aaa" in last_result(fake)
        ok(change(api, changes={"concerns": ["b" * 10_000]}))
        fake.release()
        assert running.result().status_code == 200
    assert [each[0] for each in read(api)["concerns"]] == ["b", "a"]
    assert change(api, changes={"steps": ["c"]}).status_code == 400
    fake.call_tool("update_state", {"steps": ["c"]})
    fake.reply("Sorry.")
    say(client, user)
    assert "reset fields" in last_result(fake)
    ok(change(api, changes={"concerns": ["c"]}, reset=["concerns"]))
    assert read(api) == {"concerns": ["c"]}


def test_parallel_changes_of_the_api_lose_nothing(client, fake, user, api):
    fake.reply("ok")
    say(client, user)
    with ThreadPoolExecutor(8) as pool:
        sent = pool.map(
            lambda n: change(api, changes={"concerns": [f"c{n}"]}), range(8)
        )
        assert {each.status_code for each in sent} == {200}
    assert sorted(read(api)["concerns"]) == [f"c{n}" for n in range(8)]


def test_user_reads_and_changes_the_state(client, fake, user, api):
    fake.reply("ok")
    say(client, user, thread="default")
    path = "/v1/threads/default/state"
    assert api.get(path, agent="coach") == {
        "object": "thread.state",
        "thread_id": "default",
        "agent": "coach",
        "state": {},
        "updated_at": None,
    }
    changed = change(api, "default", changes={"progress": {"a": 1, "b": 2}})
    assert ok(changed)["state"] == {"progress": {"a": 1, "b": 2}}
    changed = change(api, "default", changes={"progress": {"c": 3}}, reset=["progress"])
    assert ok(changed)["state"] == {"progress": {"c": 3}}
    assert isinstance(ok(changed)["updated_at"], int)
    fake.reply("ok")
    say(client, user, thread="default")
    assert '{"c":3}' in shown(fake.requests[-1])


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"changes": {"concerns": "sleep"}}, 400, "'concerns' must be a list"),
        ({"reset": ["nothing"]}, 400, "the state has no field 'nothing'"),
        ({"changes": {"progress": {"a": "x" * 20_000}}}, 400, "at most 16384"),
        ({"agent": "assistant"}, 400, "'assistant' has no state"),
        ({"agent": "nobody"}, 404, "nobody"),
        ({"changes": {f"f{n}": 1 for n in range(33)}}, 400, "at most 32"),
        ({"state": {}}, 400, "state"),
    ],
)
def test_invalid_changes_are_refused(client, fake, user, api, fields, status, message):
    fake.reply("ok")
    say(client, user)
    request = {"agent": "coach", **fields}
    error = api.refused("PATCH", "/v1/threads/t/state", status, body=request)
    assert message in error["message"]
    assert not rows(user).exists()


def test_unknown_thread_has_no_state(server, api):
    for method, more in (
        ("GET", {"agent": "coach"}),
        ("PATCH", {"body": {"agent": "coach"}}),
    ):
        error = api.refused(method, "/v1/threads/none/state", 404, **more)
        assert error["code"] == "thread_not_found"


def test_state_is_deleted_with_its_thread(client, fake, user):
    update(fake, concerns=["sleep"])
    say(client, user)
    assert rows(user).count() == 1
    user_id = identity.derive_user_id(user)
    message_deletion.delete_thread(user_id, "t")
    assert not AgentState.objects.filter(thread__user_id=user_id).exists()
    assert not Thread.objects.filter(user_id=user_id).exists()


def test_state_is_exported(client, fake, user, api):
    update(fake, concerns=["sleep"])
    say(client, user)
    (exported,) = api.get("/v1/users/me/export")["agent_states"]
    assert exported["thread_id"] == "t"
    assert exported["agent"] == "coach"
    assert exported["state"] == {"concerns": ["sleep"]}


def test_clients_own_conversation_keeps_the_state_of_its_thread(
    client, fake, user, api
):
    update(fake, concerns=["sleep"])
    say(client, user)
    update(fake, concerns=["work"])
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "more"},
    ]
    ask(client, user, agent="coach", messages=messages, metadata={"thread_id": "t"})
    assert '["sleep"]' in shown(fake.requests[-2])
    assert read(api) == {"concerns": ["sleep", "work"]}


def test_turn_that_forgets_a_fact_does_not_keep_it(client, fake, api, user):
    fact = api.save("Has a cat called Miu")
    fake.call_tool("forget_memory", {"id": fact["id"]})
    fake.reply("Shall I?")
    say(client, user, "Forget my cat", agent="keeper")
    fake.call_tool("forget_memory", {"id": fact["id"], "confirmed": True})
    concerns = ["has a cat called Miu who coughs", "sleeps badly"]
    fake.call_tool("update_state", {"concerns": concerns})
    fake.reply("Done.")
    say(client, user, "Yes", agent="keeper")
    assert read(api, agent="keeper") == {"concerns": ["sleeps badly"]}
