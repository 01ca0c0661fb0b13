"""Where memories are recalled: by all agents, by one, or in one thread."""

import json

import openai
import pytest

from access.users import identity
from config import live
from memory.checks import _unused_settings
from memory.errors import FactInvalid
from memory.extraction import extraction_worker, llm_call
from memory.facts import fact_store, fact_validation
from memory.facts.types import FactDraft
from memory.models import Fact, Passage, Thread
from memory.recall import embedding, search
from memory.recall.types import Query
from tasks.models import Task
from tests.conftest import CONFIG
from tests.gateway.calls import ask, prompt
from tests.gateway.memory.test_recall import memory_block
from tests.gateway.memory_client import MemoryClient, ok
from tests.memory.extraction_harness import claim, fact, propose_facts, run_due_jobs

pytestmark = pytest.mark.database

AGENTS = """
  - {name: coach, provider: openai, model: gpt-test, memory_tools: true, COACH}
  - {name: mute, provider: openai, model: gpt-test, memory: false, memory_tools: true}
memory:
  user_state:
    embed_with: {provider: hash}
    learn_from: {provider: openai, model: gpt-cheap}
"""


@pytest.fixture
def setup(configure):
    """Return a function that activates a YAML with settings of the coach."""

    def use(coach: str = "tools: []", memory: str = ""):
        text = CONFIG + AGENTS.replace("COACH", coach) + memory
        configure(text.replace(", tools: []", ""))
        Task.objects.extractions().delete()

    return use


@pytest.fixture
def server(running, setup) -> str:
    setup()
    return running


@pytest.fixture
def api(http, user) -> MemoryClient:
    return MemoryClient(http, user)


def say(client, user, text, agent="assistant", thread=None, **metadata):
    given = {**metadata, **({} if thread is None else {"thread_id": thread})}
    return ask(client, user, text, agent=agent, metadata=given)


def learn(fake, *facts):
    propose_facts(fake, *facts)
    assert run_due_jobs() == 1


BIKE = fact("The user rides a green bicycle", "I ride a green bicycle")
SAID = "I ride a green bicycle"
ASKED = "What about the green bicycle?"


def recalled(fake) -> str:
    """Return the system messages of the last prompt."""
    messages = prompt(fake.requests[-1])
    return "\n".join(text for role, text in messages if role == "system")


# By agent.


def test_agent_scope_keeps_facts_and_messages_to_the_agent(client, fake, user, setup):
    setup("memory: {scope: agent}")
    say(client, user, SAID, "coach", "one")
    learn(fake, BIKE)
    say(client, user, ASKED, "coach", "two")
    assert "rides a green bicycle" in recalled(fake)
    assert f'user: "{SAID}"' in recalled(fake)
    say(client, user, ASKED, "assistant", "three")
    assert "green" not in recalled(fake)
    say(client, f"{user}-other", ASKED, "coach", "two")
    assert "green" not in recalled(fake)


def test_agent_scope_does_not_read_what_all_agents_know(client, fake, user, setup):
    setup("memory: {scope: agent}")
    say(client, user, SAID, "assistant", "one")
    learn(fake, BIKE)
    say(client, user, ASKED, "coach", "two")
    assert "green" not in recalled(fake)
    say(client, user, ASKED, "assistant", "three")
    assert "rides a green bicycle" in recalled(fake)


def test_pinned_facts_and_rules_have_the_scope(client, fake, user, setup):
    setup("memory: {scope: agent}")
    for draft in (
        FactDraft("The user is allergic to nuts", is_pinned=True, scope="agent:coach"),
        FactDraft("Answer in verse.", category="rule", scope="agent:coach"),
    ):
        fact_store.save_drafts(
            identity.derive_user_id(user), [draft], [None], by="operator"
        )
    say(client, user, "Hello", "coach")
    assert "allergic to nuts" in recalled(fake)
    assert "Answer in verse." in recalled(fake)
    say(client, user, "Hello", "assistant")
    assert "nuts" not in recalled(fake)
    assert "verse" not in recalled(fake)


def test_same_fact_is_stored_in_each_scope(client, fake, user, api, setup):
    setup("memory: {scope: agent}")
    for agent, thread in (("coach", "one"), ("assistant", "two")):
        say(client, user, SAID, agent, thread)
        learn(fake, BIKE)
    found = api.get()["data"]
    assert {each["scope"] for each in found} == {None, "agent:coach"}
    assert len(found) == 2


def test_key_is_unique_within_its_scope(user, database):
    user_id = identity.derive_user_id(user)
    for scope in ("", "agent:coach", "agent:coach"):
        draft = FactDraft("The user lives in Oslo", key="city", scope=scope)
        fact_store.save_drafts(user_id, [draft], [None], by="user")
    rows = Fact.objects.filter(user_id=user_id, status="active")
    assert sorted(rows.values_list("scope", flat=True)) == ["", "agent:coach"]


def test_rules_are_counted_by_scope(user, database):
    user_id = identity.derive_user_id(user)
    for scope, count in (("agent:coach", fact_validation.MAX_RULES), ("", 1)):
        drafts = [
            FactDraft(f"Answer in {number} words.", category="rule", scope=scope)
            for number in range(count)
        ]
        fact_store.save_drafts(user_id, drafts, [None] * count, by="user")
    rules = Fact.objects.filter(user_id=user_id)
    rules.get(scope="").edit({"content": "Answer in verse."}, by="user")
    one = rules.filter(scope="agent:coach").first()
    extra = FactDraft("The user counts", scope="agent:coach")
    fact_store.save_drafts(user_id, [extra], [None], by="user")
    with pytest.raises(FactInvalid, match="20 rules"):
        rules.get(content="The user counts").edit({"category": "rule"}, by="user")
    assert one is not None
    assert one.edit({"content": "Answer in prose."}, by="user")


def test_tools_find_and_change_only_the_scope(client, fake, user, api, setup):
    setup("memory: {scope: agent}")
    shared = api.save("The user plays the cello")
    fake.call_tool("search_memory", {"query": "cello"})
    fake.call_tool("update_memory", {"id": shared["id"], "content": "It is over."})
    fake.call_tool("forget_memory", {"all": True})
    fake.call_tool("save_memory", {"content": "The user plays the harp"})
    say(client, user, "Hello", "coach")
    results = [
        message["content"]
        for message in fake.requests[-1].body["messages"]
        if message["role"] == "tool"
    ]
    assert json.loads(results[0]) == {"facts": [], "messages": []}
    assert "no such fact" in results[1]
    assert json.loads(results[2])["would_forget"] == []
    assert {each["content"]: each["scope"] for each in api.get()["data"]} == {
        "The user plays the cello": None,
        "The user plays the harp": "agent:coach",
    }


def test_many_narrow_memories_hide_no_wider_one(user, setup, database):
    setup("memory: {scope: agent}")
    user_id = identity.derive_user_id(user)
    words = "bicycle", "of", "the", "user"
    narrow = [f"The bicycle of the user has number {n}" for n in range(250)]
    drafts = [FactDraft(text, scope="agent:coach") for text in narrow]
    for start in range(0, 250, 50):
        fact_store.save_drafts(
            user_id, drafts[start : start + 50], [None] * 50, by="operator"
        )
    wide = FactDraft("A bicycle is among the many things that Ada has in Oslo")
    fact_store.save_drafts(user_id, [wide], [None], by="operator")
    found = search.search_facts(user_id, Query(" ".join(words)), limit=3, scope="")
    assert [hit.fact.content for hit in found] == [wide.content]


# By thread.


def test_thread_scope_keeps_memories_in_the_thread(client, fake, user, setup):
    setup(memory="  scope: thread\n")
    say(client, user, SAID, thread="one")
    learn(fake, BIKE)
    say(client, user, ASKED, thread="two")
    assert "green" not in recalled(fake)
    say(client, user, ASKED, thread="one")
    assert "rides a green bicycle" in recalled(fake)


def test_thread_scope_moves_with_a_conversation(client, fake, user, setup):
    setup(memory="  scope: thread\n")
    say(client, user, "First of all: hello")
    learn(fake)
    first = say(client, user, SAID)
    learn(fake, BIKE)
    messages = [
        {"role": "user", "content": SAID},
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "And now?"},
    ]
    ask(client, user, messages=messages)
    user_id = identity.derive_user_id(user)
    moved = Thread.objects.exclude(name="").get(user_id=user_id)
    assert Fact.objects.get(user_id=user_id).scope == f"thread:{moved.name}"
    say(client, user, ASKED)
    assert "rides" not in recalled(fake)


def test_thread_scope_of_a_sent_conversation_needs_its_name(client, fake, user, setup):
    setup(memory="  scope: thread\n")
    say(client, user, SAID, "coach")
    learn(fake, BIKE)
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": ASKED},
    ]
    ask(client, user, messages=messages, agent="coach")
    assert "rides" not in recalled(fake)
    assert "tools" not in fake.requests[-1].body
    named = {"thread_id": "one"}
    ask(client, user, messages=messages, agent="coach", metadata=named)
    assert "tools" in fake.requests[-1].body


@pytest.mark.parametrize("facts", ["keep", "forget"])
def test_thread_scope_ends_with_the_thread(client, fake, user, api, setup, facts):
    setup(memory="  scope: thread\n")
    user_id = identity.derive_user_id(user)
    say(client, user, SAID, thread="one")
    learn(fake, BIKE)
    for scope in ("thread:one", "thread:two"):
        draft = FactDraft("The user is allergic to nuts", is_pinned=True, scope=scope)
        fact_store.save_drafts(user_id, [draft], [None], by="agent")
    path = "/v1/threads/one"
    asked = ok(api.send("DELETE", path, facts=facts), 202)
    assert asked["would_delete"]["facts"] == 2
    given = {"facts": facts, "confirmation": asked["confirmation"]}
    assert ok(api.send("DELETE", path, **given))["deleted"]["facts"] == 2
    say(client, user, ASKED, thread="one")
    assert "green" not in recalled(fake)
    assert "nuts" not in recalled(fake)
    assert Fact.objects.get(user_id=user_id).scope == "thread:two"


@pytest.mark.parametrize("step", [(llm_call, "call_model"), (embedding, "embed_texts")])
def test_thread_scope_moves_during_extraction(
    client, fake, user, setup, monkeypatch, step
):
    setup(memory="  scope: thread\n")
    say(client, user, "First of all: hello")
    learn(fake)
    first = say(client, user, SAID)
    original = getattr(*step)

    def move_before(*args, **options):
        monkeypatch.setattr(*step, original)
        messages = [
            {"role": "user", "content": SAID},
            {"role": "assistant", "content": first.choices[0].message.content},
            {"role": "user", "content": "And now?"},
        ]
        ask(client, user, messages=messages)
        propose_facts(fake, BIKE)
        return original(*args, **options)

    monkeypatch.setattr(*step, move_before)
    extraction_worker.run(claim())
    user_id = identity.derive_user_id(user)
    moved = Thread.objects.exclude(name="").get(user_id=user_id)
    stored = Fact.objects.get(user_id=user_id)
    assert stored.scope == f"thread:{moved.name}"
    passage = Passage.objects.get(user_id=user_id, message=stored.message)
    assert (passage.scope, passage.thread_id, passage.position) == (
        stored.scope,
        moved.pk,
        0,
    )


def test_episode_contains_and_reaches_one_scope(client, fake, user, setup):
    from tests.gateway.memory.test_sessions import ANSWER, catch_up, run_sessions

    setup("memory: {scope: agent}")
    Task.objects.of_kind("session").delete()
    say(client, user, "My aunt Rosa lent me money for the flat", "coach", "one")
    propose_facts(fake)
    run_due_jobs()
    say(client, user, "Which flat should I take?", "assistant", "one", session="end")
    propose_facts(fake)
    run_due_jobs()
    fake.reply(json.dumps(ANSWER))
    assert run_sessions() == 1
    quoted = fake.requests[-1].body["messages"][1]["content"]
    assert "Rosa" not in quoted
    assert "Which flat" in quoted
    say(client, user, "Hey", "coach", "two")
    assert not catch_up(fake.requests[-1])
    say(client, user, "Hey", "assistant", "three")
    assert catch_up(fake.requests[-1])


# Threads of an agent.


def test_agent_with_own_threads_shares_no_thread(client, fake, user, api, setup):
    setup("threads: own")
    say(client, user, "one", "assistant")
    say(client, user, "two", "coach")
    assert ("user", "one") not in prompt(fake.requests[-1])
    say(client, user, "three", "coach")
    assert ("user", "two") in prompt(fake.requests[-1])
    say(client, user, "four", "coach", "trip")
    names = [each["id"] for each in api.get("/v1/threads")["data"]]
    assert names == ["trip@coach", "default@coach", "default"]


def test_listed_name_continues_an_own_thread(client, fake, user, api, setup):
    setup("threads: own")
    say(client, user, "one", "coach", "trip")
    [listed] = api.get("/v1/threads")["data"]
    say(client, user, "two", "coach", listed["id"])
    assert ("user", "one") in prompt(fake.requests[-1])
    assert len(api.get("/v1/threads")["data"]) == 1


def test_turns_from_elsewhere_are_added_to_an_own_thread(
    client, fake, user, api, setup
):
    setup("threads: own")
    said = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "ok"}]
    turns = {"agent": "coach", "messages": said, "learn": False}
    ok(api.send("POST", "/v1/threads/trip/messages", turns), 201)
    say(client, user, "two", "coach", "trip")
    assert ("user", "one") in prompt(fake.requests[-1])


def test_state_of_an_own_thread_has_both_names(client, fake, user, api, setup):
    setup("threads: own, state: {topic: {}}")
    say(client, user, "one", "coach", "trip")
    change = {"agent": "coach", "changes": {"topic": "skis"}}
    ok(api.send("PATCH", "/v1/threads/trip/state", change))
    for name in ("trip", "trip@coach"):
        shown = api.get(f"/v1/threads/{name}/state", agent="coach")
        assert shown["state"] == {"topic": "skis"}


def test_own_thread_needs_a_short_name(client, fake, user, setup):
    setup("threads: own")
    say(client, user, "hi", "coach", "x" * 506)
    with pytest.raises(openai.BadRequestError, match="at most 506 characters"):
        say(client, user, "hi", "coach", "x" * 507)


def test_clients_conversation_of_an_agent_with_own_threads(client, fake, user, setup):
    setup("threads: own")
    first = say(client, user, "one", "coach")
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "two"},
    ]
    ask(client, user, agent="coach", messages=messages)
    rows = Thread.objects.filter(user_id=identity.derive_user_id(user))
    assert {*rows.values_list("name", "length")} == {("default@coach", 4)}


# Users by thread.


def test_thread_is_the_user_of_a_request_without_one(http, client, fake, configure):
    configure(CONFIG + "users: per-thread\n")

    def post(text, headers=None, **fields):
        body = {
            "model": "assistant",
            "messages": [{"role": "user", "content": text}],
            **fields,
        }
        return http.post("/v1/chat/completions", json=body, headers=headers or {})

    ok(post("one", metadata={"thread_id": "a-1"}))
    ok(post("two", headers={"X-Coulisse-Thread": "a-1"}))
    assert ("user", "one") in prompt(fake.requests[-1])
    ok(post("three", metadata={"thread_id": "b-1"}))
    assert ("user", "one") not in prompt(fake.requests[-1])
    # A user of the thread's name is somebody else.
    ok(post("four", metadata={"thread_id": "a-1"}, safety_identifier="a-1"))
    assert ("user", "one") not in prompt(fake.requests[-1])
    refused = post("five")
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "user_required"
    assert "thread_id" in refused.json()["error"]["message"]
    listed = http.get("/v1/threads", headers={"X-Coulisse-Thread": "a-1"})
    assert [each["id"] for each in ok(listed)["data"]] == ["a-1"]


# Agents without memory.


def test_agent_without_memory_searches_its_own_history_by_words(
    client, fake, user, setup
):
    say(client, user, "The heron stands in the river", "mute", "one")
    assert run_due_jobs() == 1
    assert (
        Passage.objects.get(
            user_id=identity.derive_user_id(user), message__role="user"
        ).scope
        == "agent:mute"
    )
    fake.call_tool("search_memory", {"query": "heron"})
    say(client, user, "What did I see?", "mute", "two")
    (result,) = [
        message["content"]
        for message in fake.requests[-1].body["messages"]
        if message["role"] == "tool"
    ]
    assert "The heron stands" in result
    say(client, user, "The heron?", "assistant", "three")
    assert not memory_block(fake.requests[-1])
    assert "river" not in recalled(fake)


def test_history_is_searched_without_user_state(client, fake, user, configure):
    text = CONFIG.replace(
        "  - name: assistant\n", "  - name: assistant\n    memory_tools: true\n"
    )
    configure(text)
    Task.objects.extractions().delete()
    before = len(fake.requests)
    say(client, user, "The heron stands in the river", thread="one")
    say(client, user, "Between us: a crane", thread="one", memory="off")
    assert run_due_jobs() == 1
    assert len(fake.requests) == before + 2
    fake.call_tool("search_memory", {"query": "heron crane"})
    say(client, user, "What did I see?", thread="two")
    (result,) = [
        message["content"]
        for message in fake.requests[-1].body["messages"]
        if message["role"] == "tool"
    ]
    assert "The heron stands" in result
    assert "crane" not in result


# Settings without an effect.


def test_settings_without_an_effect_are_warned_of(configure, database):
    configure(
        CONFIG.replace(
            "  - name: assistant\n",
            "  - name: assistant\n    memory: {user_state: false, recall_k: 7}\n",
        )
        + "memory: {relevance_limit: 3, sessions: {episodes: false, catch_up: true}}\n"
    )
    found = list(_unused_settings(live.current()))
    assert {kind for kind, _ in found} == {"coulisse.W406"}
    texts = [text for _, text in found]
    assert [text.partition(" has")[0] for text in texts] == [
        "memory.relevance_limit",
        "memory.sessions",
        "agents.assistant.memory.recall_k",
        "memory.sessions.catch_up",
    ]


def test_settings_with_an_effect_are_not_warned_of(setup, database):
    setup("memory: {recall_k: 7}", memory="  relevance_limit: 3\n")
    assert not list(_unused_settings(live.current()))
