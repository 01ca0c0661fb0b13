"""Conversations by voice: keys of the provider for browsers, and tools run here."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import httpx2
import openai
import orjson
import pytest
from django.utils import timezone

from access.tokens import api_tokens
from access.users import identity
from access.users.request_user import USER_HEADER
from memory.models import Fact, PendingForgetting, StoredMessage, Thread
from tasks.models import CallReceipt
from telemetry.models import Turn
from testing import scripted_realtime
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway.auth.authentication.credentials import TOKENS
from tests.gateway.calls import ask, bearer, error, until
from tests.gateway.memory.test_recall import know
from turns.preparation import turn_builder
from turns.voice import tool_calls

pytestmark = pytest.mark.database

MODEL = "realtime: {model: gpt-realtime-2, voice: marin}"
VOICE = CONFIG.replace(
    "  - name: assistant\n",
    f"  - name: assistant\n    memory_tools: true\n    {MODEL}\n",
)
REMEMBERING = VOICE + "memory: {user_state: {embed_with: {provider: hash}}}\n"
SECRETS, CALLS = "/v1/realtime/client_secrets", "/v1/realtime/tool_calls"


@pytest.fixture
def server(running, configure) -> str:
    configure(REMEMBERING)
    return running


def create(client, user, *, metadata=None, expires_after=None, **session):
    """Create a key with the official client."""
    more = {} if expires_after is None else {"expires_after": expires_after}
    return client.realtime.client_secrets.create(
        session={"type": "realtime", "model": "assistant", **session},
        extra_headers={USER_HEADER: user},
        extra_body={"metadata": metadata or {}},
        **more,
    )


def request_key(http, user, session=(), headers=(), **body):
    session = {"type": "realtime", "model": "assistant", **dict(session)}
    body = {"session": session, "safety_identifier": user, **body}
    return http.post(SECRETS, json=body, headers=dict(headers))


def call(http, user, name, arguments=None, timeout=60, **body):
    body = {
        "model": "assistant",
        "call_id": "call_1",
        "name": name,
        "arguments": json.dumps(arguments or {}),
        "safety_identifier": user,
        **body,
    }
    return http.post(CALLS, json=body, timeout=timeout)


def output(answer) -> str:
    assert answer.status_code == 200, answer.text
    item = answer.json()
    assert (item["type"], item["call_id"]) == ("function_call_output", "call_1")
    return item["output"]


def records(user):
    return Turn.objects.filter(user_id=identity.derive_user_id(user)).newest_first()


# Keys.


def test_key_opens_a_session_with_the_agent(client, fake, user):
    know(user, "Lives in Oslo", is_pinned=True)
    secret = create(client, user, metadata={"language": "fr"})
    assert secret.value == scripted_realtime.KEY
    assert secret.session.id == "sess_fake"
    assert secret.coulisse == {"calls_url": f"{fake.base_url}/realtime/calls"}
    (sent,) = fake.requests
    assert sent.path == SECRETS
    assert sent.headers["authorization"].startswith("Bearer sk-openai-")
    session = sent.body["session"]
    assert (session["type"], session["model"]) == ("realtime", "gpt-realtime-2")
    assert session["audio"] == {
        "input": {"transcription": {"model": "gpt-transcribe"}},
        "output": {"voice": "marin"},
    }
    assert sent.body["expires_after"] == {"anchor": "created_at", "seconds": 60}
    instructions = session["instructions"]
    parts = ("You are a test assistant.", "French", "spoken", "Lives in Oslo")
    assert sorted(parts, key=instructions.index) == list(parts)
    tools = {tool["name"]: tool for tool in session["tools"]}
    assert "forget_memory" in tools
    assert {tool["type"] for tool in tools.values()} == {"function"}
    assert tools["search_memory"]["parameters"]["type"] == "object"


def test_client_chooses_how_it_sounds_but_not_who_speaks(client, fake, user):
    tool = {"type": "function", "name": "open_door", "parameters": {"type": "object"}}
    create(
        client,
        user,
        instructions="Speak of the weather.",
        audio={
            "input": {"turn_detection": {"type": "semantic_vad"}},
            "output": {"voice": "cedar"},
        },
        tools=[tool],
        max_output_tokens=200,
        expires_after={"anchor": "created_at", "seconds": 300},
    )
    session = fake.requests[0].body["session"]
    assert session["audio"] == {
        "input": {
            "transcription": {"model": "gpt-transcribe"},
            "turn_detection": {"type": "semantic_vad"},
        },
        "output": {"voice": "cedar"},
    }
    assert session["max_output_tokens"] == 200
    assert session["tools"][0] == tool
    assert len(session["tools"]) > 1
    text = session["instructions"]
    assert text.index("a test assistant") < text.index("Speak of the weather.")
    assert fake.requests[0].body["expires_after"]["seconds"] == 300


@pytest.mark.parametrize(
    "session",
    [
        {"model": ""},
        {"prompt": {"id": "pmpt_1"}},
        {"tracing": "auto"},
        {"type": "transcription"},
        {"instructions": "x" * 20_001},
        {"tools": [{"type": "mcp", "server_label": "x"}]},
        {"tools": [{"type": "function", "name": "a b"}]},
        {"tools": [{"type": "function", "name": "search_memory"}]},
        {"tools": [{"type": "function", "name": "a"}] * 2},
        {"audio": {"input": 3}},
        {"max_output_tokens": 5000},
    ],
    ids=range(11),
)
def test_other_fields_are_refused(server, http, fake, user, session):
    error(request_key(http, user, session), 400)
    assert fake.requests == []


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_output_tokens", 5000), ("truncation", "some"), ("tool_choice", {})],
    ids=["number", "choice", "object"],
)
def test_errors_name_fields_of_the_request(server, http, user, field, value):
    refused = error(request_key(http, user, {field: value}), 400)
    assert refused["param"] in (f"session.{field}", f"session.{field}.type")


def test_lifetime_is_bounded(server, http, user):
    for seconds in (9, 7201):
        lifetime = {"expires_after": {"anchor": "created_at", "seconds": seconds}}
        refused = error(request_key(http, user, **lifetime), 400)
        assert refused["param"] == "expires_after.seconds"


def test_agent_without_a_realtime_model_is_named(server, http, fake, user):
    refusal = error(request_key(http, user, {"model": "tuned"}), 400)
    assert refusal["code"] == "realtime_unavailable"
    assert "'tuned' cannot be spoken to" in refusal["message"]
    assert error(request_key(http, user, {"model": "nobody"}), 404)
    assert fake.requests == []


def test_another_provider_can_speak(running, configure, client, fake, user):
    model = "realtime: {model: gpt-realtime-2, provider: openai}"
    configure(CONFIG.replace("  - name: claude\n", f"  - name: claude\n    {model}\n"))
    assert create(client, user, model="claude").value
    assert fake.requests[0].body["session"]["model"] == "gpt-realtime-2"


def test_failure_of_the_provider_is_mapped_and_recorded(server, http, fake, user):
    fake.fail(401)
    answer = request_key(http, user)
    assert error(answer, 502)["code"] == "provider_key_refused"
    assert answer.headers["x-coulisse-provider"] == "openai"
    assert answer.headers["x-coulisse-attempts"] == "1"
    fake.raw(b'{"value": 3}')
    assert error(request_key(http, user), 502)["code"] == "provider_broken_reply"
    assert [each.outcome for each in records(user)] == ["error", "error"]


def test_key_is_recorded_and_stores_no_messages(client, user):
    (fact,) = know(user, "Lives in Oslo", is_pinned=True)
    create(client, user, metadata={"thread_id": "call"})
    (record,) = records(user)
    assert (record.origin, record.outcome, record.thread) == ("voice", "ok", "call")
    assert [each[-32:] for each in record.recalled_fact_ids] == [fact.hex]
    user_id = identity.derive_user_id(user)
    assert not StoredMessage.objects.filter(thread__user_id=user_id).exists()


def test_incognito_key_has_no_memory_and_leaves_no_trace(client, fake, user):
    know(user, "Lives in Oslo", is_pinned=True)
    create(client, user, metadata={"memory": "incognito"})
    session = fake.requests[0].body["session"]
    assert "Oslo" not in session["instructions"]
    assert "tools" not in session
    assert not records(user).exists()


def test_key_is_limited_as_a_turn_is(running, configure, http, fake, user):
    limits = "limits: [{per: principal, requests_per_hour: 2}]\n"
    configure(REMEMBERING + limits)
    assert request_key(http, user).status_code == 200
    assert call(http, user, "search_memory", {"query": "x"}).status_code == 200
    assert error(request_key(http, user), 429)["code"] == "rate_limit_exceeded"
    error(call(http, user, "search_memory", {"query": "y"}), 429)
    assert len(fake.requests) == 1


def test_spent_budget_opens_no_session(running, configure, http, fake, user):
    prices = "prices: {openai: {gpt-test: {input: 1, output: 1}}}\n"
    configure(TOKENS.replace(CONFIG, VOICE) + prices)
    _, secret = api_tokens.create_token(
        "test", user, budget="total", limit_micro_usd=1, by=ADA
    )
    answer = request_key(http, None, headers=bearer(secret))
    assert error(answer, 429)["code"] == "insufficient_quota"
    assert fake.requests == []


# Tools.


def test_tool_runs_for_its_user(server, http, user):
    know(user, "Has a cat called Miu")
    found = output(call(http, user, "search_memory", {"query": "cat"}))
    assert "Miu" in found
    assert "Miu" not in output(
        call(http, f"{user}-other", "search_memory", {"query": "cat"})
    )
    (record,) = records(user)
    assert (record.origin, record.tool_calls, record.outcome) == ("voice", 1, "ok")


def test_failures_of_tools_are_outputs(server, http, user):
    assert "no tool called 'rm'" in output(call(http, user, "rm"))
    # A list is valid JSON, but no arguments.
    assert "must be a JSON object" in output(call(http, user, "search_memory", [1]))
    error(call(http, user, "x" * 65), 400)
    error(call(http, user, "search_memory", "x" * 100_001), 400)


def test_characters_that_databases_refuse_are_replaced(server, http, user):
    assert "no tool called" in output(call(http, user, "a\0b"))
    assert "no tool called" in output(call(http, user, "a", {"x": "\0\ud800"}))
    answer = call(http, user, "a", call_id="c\0")
    assert answer.json()["call_id"] == "c\0"
    assert records(user).count() == 3


@pytest.fixture
def own_tool(monkeypatch):
    """Return a function that gives agents one tool, called `wait`."""

    def give(run):
        class Own:
            kind, name, target = "memory", "wait", ""
            description, parameters = "Waits.", {"type": "object"}
            call = staticmethod(run)

        async def tools(*_, **__):
            return [Own()]

        monkeypatch.setattr(turn_builder, "_tools", tools)

    return give


def test_slow_tool_is_given_up(server, http, user, own_tool, monkeypatch):
    async def never(*_):
        await asyncio.Event().wait()

    own_tool(never)
    monkeypatch.setattr(tool_calls, "MAX_SECONDS", 0.05)
    assert "did not answer within" in output(call(http, user, "wait"))
    assert records(user).get().tool_calls == 1


@pytest.fixture
def counted(own_tool):
    """The calls of a tool that returns their number, and NUL."""
    calls = []

    async def count(*_):
        calls.append(None)
        return f"{len(calls)}\0"

    own_tool(count)
    return calls


def receipts(user):
    return CallReceipt.objects.filter(user_id=identity.derive_user_id(user))


def test_repeated_call_returns_the_first_output(server, http, user, counted):
    first = output(call(http, user, "wait", {"a": 1}, item_id="i"))
    assert first == "1\0"
    assert output(call(http, user, "wait", {"a": 1}, item_id="i")) == first
    assert len(counted) == records(user).count() == 1
    # Providers may count calls from one in each session.
    assert output(call(http, user, "wait", {"a": 2}, item_id="i")) == "2\0"
    assert output(call(http, user, "wait", {"a": 1}, item_id="j")) == "3\0"
    assert output(call(http, f"{user}-other", "wait", {"a": 1}, item_id="i")) == "4\0"


def test_calls_at_the_same_time_run_once(server, http, user, own_tool):
    calls = []

    async def count(*_):
        calls.append(None)
        await asyncio.sleep(0.3)
        return str(len(calls))

    own_tool(count)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: call(http, user, "wait"), range(4)))
    assert {output(each) for each in answers} == {"1"}
    assert len(calls) == 1


def test_call_waits_for_that_of_another_process(server, http, user, counted):
    output(call(http, user, "wait"))
    # As another process leaves it while the call runs, and after that.
    receipts(user).update(data=None)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(call, http, user, "wait")
        with pytest.raises(TimeoutError):
            waiting.result(0.5)
        receipts(user).update(data='"seven"')
        assert output(waiting.result()) == "seven"
    receipts(user).update(data=None, begun_at=timezone.now() - timedelta(minutes=3))
    assert "may have taken effect" in output(call(http, user, "wait"))
    assert len(counted) == 1


def test_interrupted_call_is_not_repeated(server, http, user, own_tool):
    begun = threading.Event()

    async def never(*_):
        begun.set()
        await asyncio.Event().wait()

    own_tool(never)
    with pytest.raises(httpx2.ReadTimeout):
        call(http, user, "wait", timeout=0.5)
    assert begun.is_set()
    until(lambda: receipts(user).get().output)
    assert "may have taken effect" in output(call(http, user, "wait"))


def test_call_that_was_refused_may_be_repeated(running, configure, http, user, counted):
    limit = "limits: [{per: principal, requests_per_hour: 1}]\n"
    configure(REMEMBERING + limit)
    output(call(http, user, "wait", {"a": 1}))
    error(call(http, user, "wait", {"a": 2}), 429)
    # It is no call of its own, so no limit counts it.
    output(call(http, user, "wait", {"a": 1}))
    configure(REMEMBERING)
    assert output(call(http, user, "wait", {"a": 2})) == "2\0"


def test_receipts_of_calls_expire(server, http, user, counted):
    output(call(http, user, "wait"))
    now = timezone.now()
    assert not CallReceipt.objects.expired(now) & receipts(user)
    later = now + timedelta(hours=1, seconds=1)
    assert CallReceipt.objects.expired(later) & receipts(user)


def test_facts_are_forgotten_after_another_sentence_of_the_user(server, http, user):
    (fact,) = know(user, "Has a cat called Miu")

    def forget(item_id, **arguments):
        given = {"query": "cat", **arguments}
        more = {} if item_id is None else {"item_id": item_id}
        return output(call(http, user, "forget_memory", given, **more))

    assert "would_forget" in forget("item_1")
    for item_id in (None, "item_1"):
        assert forget(item_id, confirmed=True).startswith("Error: ")
    assert Fact.objects.get(pk=fact).status == "active"
    assert "forgotten" in forget("item_2", confirmed=True)
    assert Fact.objects.get(pk=fact).status == "deleted"


def test_stored_question_of_an_own_thread_is_that_of_its_tool_call(
    running, configure, http, user
):
    own = REMEMBERING.replace(MODEL, f"{MODEL}\n    threads: own")
    configure(own)
    know(user, "Has a cat called Miu")
    call(http, user, "forget_memory", {"query": "cat"}, item_id="item_1")
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    added = http.post(
        "/v1/threads/default/messages",
        headers={USER_HEADER: user, "Idempotency-Key": "item_1"},
        json={"agent": "assistant", "messages": said, "learn": False},
    )
    asked = PendingForgetting.objects.get(user_id=identity.derive_user_id(user))
    assert asked.turn_id.hex in added.json()["data"][0]["completion_id"]
    assert StoredMessage.objects.filter(turn_id=asked.turn_id).count() == 2


def test_state_changes_with_a_call(running, configure, http, fake, user):
    state = "state: {topic: {type: text}}"
    configure(VOICE.replace(MODEL, f"{MODEL}\n    {state}"))
    thread = {"metadata": {"thread_id": "call"}}
    answer = output(call(http, user, "update_state", {"topic": "skis"}, **thread))
    assert orjson.loads(answer)["topic"] == "skis"
    assert request_key(http, user, **thread).status_code == 200
    assert "skis" in fake.requests[0].body["session"]["instructions"]


def test_incognito_call_has_no_memory_and_leaves_no_trace(server, http, user):
    know(user, "Has a cat called Miu")
    given = {"metadata": {"memory": "incognito"}}
    answer = call(http, user, "search_memory", {"query": "cat"}, **given)
    assert "no tool called" in output(answer)
    assert not records(user).exists()
    assert not receipts(user).exists()


# The conversation.


def test_spoken_turns_are_part_of_the_thread(client, http, fake, user):
    create(client, user, metadata={"thread_id": "call"})
    messages = [
        {"role": "user", "content": "I moved to Oslo."},
        {"role": "assistant", "content": "How nice!"},
    ]
    added = http.post(
        "/v1/threads/call/messages",
        headers={USER_HEADER: user, "Idempotency-Key": "item_1"},
        json={"agent": "assistant", "messages": messages},
    )
    assert added.status_code == 201
    fake.reply("Hello")
    ask(client, user, "Where do I live?", metadata={"thread_id": "call"})
    assert "I moved to Oslo." in str(fake.requests[-1].body["messages"])
    assert Thread.objects.filter(name="call").exists()


def test_provider_of_another_kind_is_reported(running, configure):
    with pytest.raises(Exception, match="no realtime models"):
        configure(
            CONFIG.replace(
                "  - name: claude\n", "  - name: claude\n    realtime: {model: x}\n"
            )
        )


def test_unknown_provider_is_reported(running, configure):
    model = "realtime: {model: x, provider: opena}"
    with pytest.raises(Exception, match="did you mean 'openai'"):
        configure(
            CONFIG.replace("  - name: claude\n", f"  - name: claude\n    {model}\n")
        )


def test_key_needs_a_user(running, configure, client):
    configure(VOICE)
    with pytest.raises(openai.BadRequestError):
        client.realtime.client_secrets.create(
            session={"type": "realtime", "model": "assistant"}
        )
