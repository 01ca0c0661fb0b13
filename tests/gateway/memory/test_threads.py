"""`/v1/threads`: listed, named, read, deleted, and turns added to them."""

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from django.core import signing

from access.models import AuditEntry
from access.users import identity
from memory.facts import fact_store
from memory.facts.types import FactDraft
from memory.models import Fact, StoredMessage, Thread
from memory.transcript import thread_deletion
from tasks.models import Task
from tests.gateway.calls import ask, prompt
from tests.gateway.memory.test_recall import REMEMBERING
from tests.gateway.memory_client import MemoryClient, ok

pytestmark = pytest.mark.database

STATE = "state: {topic: {type: text}}"
TURNS = [
    {"role": "user", "content": "I moved to Oslo"},
    {"role": "assistant", "content": "How nice"},
    {"role": "user", "content": "And I bought skis"},
    {"role": "assistant", "content": "Good"},
]


@pytest.fixture
def server(running, configure) -> str:
    configure(REMEMBERING)
    return running


@pytest.fixture
def api(http, user) -> MemoryClient:
    return MemoryClient(http, user)


@pytest.fixture
def stranger(http, user) -> MemoryClient:
    return MemoryClient(http, f"{user}-other")


def say(client, user, text, thread=None, **metadata):
    given = {**metadata, **({} if thread is None else {"thread_id": thread})}
    return ask(client, user, text, metadata=given)


def ids_of(page):
    return [each["id"] for each in page["data"]]


def texts(page):
    return [each["content"] for each in page["data"]]


def add(api, thread="calls", messages=TURNS, key=None, **fields):
    body = {"agent": "assistant", "messages": messages, **fields}
    headers = {} if key is None else {"Idempotency-Key": key}
    return api.client.post(
        f"/v1/threads/{thread}/messages",
        params={"safety_identifier": api.user},
        headers=headers,
        json=body,
    )


def extractions(user):
    return Task.objects.extractions().filter(user_id=identity.derive_user_id(user))


# Lists.


def test_threads_are_listed_most_recently_active_first(client, fake, user, api):
    for thread in ("trip", None, "a/b"):
        say(client, user, "hi", thread)
    say(client, user, "again", "trip")
    assert ids_of(api.get("/v1/threads")) == ["trip", "a/b", "default"]
    first = api.get("/v1/threads", limit=2)
    assert (ids_of(first), first["has_more"]) == (["trip", "a/b"], True)
    rest = api.get("/v1/threads", limit=2, after=first["last_id"])
    assert (ids_of(rest), rest["has_more"]) == (["default"], False)
    shown = api.get("/v1/threads/a/b")
    assert (shown["id"], shown["title"], shown["metadata"]) == ("a/b", None, {})
    assert api.get(f"/v1/threads/{quote('a/b', safe='')}") == shown


def test_default_thread_has_a_name_of_its_own(client, fake, user, api):
    say(client, user, "one")
    say(client, user, "two", "default")
    assert ids_of(api.get("/v1/threads")) == ["default"]
    assert len(api.get("/v1/threads/default/messages")["data"]) == 4
    assert ("user", "one") in prompt(fake.requests[-1])


def test_title_is_changed_and_removed(client, fake, user, api):
    say(client, user, "hi", "trip")
    changed = ok(api.send("PATCH", "/v1/threads/trip", {"title": " To Oslo "}))
    assert changed["title"] == "To Oslo"
    assert api.get("/v1/threads/trip") == changed
    assert ok(api.send("PATCH", "/v1/threads/trip", {"title": ""}))["title"] is None
    for title in (None, 7, "x" * 201, "a\0"):
        send = {"body": {"title": title}}
        assert api.refused("PATCH", "/v1/threads/trip", **send)["param"] == "title"


def test_messages_have_pages_of_the_current_branch(client, fake, user, api):
    for number in range(3):
        fake.reply(f"reply {number}")
        say(client, user, f"question {number}", "trip")
    path = "/v1/threads/trip/messages"
    everything = api.get(path, order="asc")
    pairs = [(f"question {number}", f"reply {number}") for number in range(3)]
    assert texts(everything) == [text for pair in pairs for text in pair]
    newest = api.get(path, limit=4)
    assert (texts(newest), newest["has_more"]) == (texts(everything)[:1:-1], True)
    rest = api.get(path, limit=4, after=newest["last_id"])
    assert (texts(rest), rest["has_more"]) == (texts(everything)[1::-1], False)
    assert api.get(path, after=rest["last_id"])["data"] == []
    reply = everything["data"][1]
    assert (reply["role"], reply["agent"]) == ("assistant", "assistant")
    feedback = {"message_id": reply["completion_id"], "thumb": "up"}
    assert api.send("POST", "/v1/feedback", feedback).status_code in (200, 201)


@pytest.mark.parametrize(
    "after", ["", "x", "7", "-1", "0" * 32 + "-0", "0" * 32 + "-" + "9" * 30]
)
def test_wrong_cursor_is_refused(client, fake, user, api, after):
    say(client, user, "hi", "trip")
    path = "/v1/threads/trip/messages"
    assert api.refused("GET", path, after=after)["param"] == "after"
    assert api.refused("GET", "/v1/threads", after=f"{after}-no")["param"] == "after"


def test_threads_of_others_are_unknown(client, fake, user, api, stranger):
    say(client, user, "secret", "trip")
    assert stranger.get("/v1/threads")["data"] == []
    confirmation = ok(api.send("DELETE", "/v1/threads/trip"), 202)["confirmation"]
    for method, path, more in [
        ("GET", "/v1/threads/trip", {}),
        ("GET", "/v1/threads/trip/messages", {}),
        ("PATCH", "/v1/threads/trip", {"body": {"title": "x"}}),
        ("DELETE", "/v1/threads/trip", {}),
        ("DELETE", "/v1/threads/trip", {"confirmation": confirmation}),
    ]:
        refusal = stranger.refused(method, path, 404, **more)
        assert refusal["code"] == "thread_not_found"
    say(client, stranger.user, "mine", "trip")
    path = "/v1/threads/trip"
    refusal = stranger.refused("DELETE", path, confirmation=confirmation)
    assert refusal["code"] == "confirmation_invalid"
    assert texts(api.get("/v1/threads/trip/messages"))[-1] == "secret"


# Deletion.


def learn_from(user, thread, content):
    """Save a fact that was learnt from the first message of a thread."""
    owner = identity.derive_user_id(user)
    row = StoredMessage.objects.filter(thread__user_id=owner, thread__name=thread)
    draft = FactDraft(content, source="extraction")
    (saved,) = fact_store.save_drafts(owner, [draft], [None], by="extraction")
    Fact.objects.filter(pk=saved.fact_id).update(message=row.earliest("position"))
    return saved.fact_id


@pytest.mark.parametrize("ending", ["end", "messages", "sessions", "state", "%2Fb"])
def test_encoded_slash_is_part_of_a_name(running, configure, http, fake, user, ending):
    configure(REMEMBERING.replace("    preamble", f"    {STATE}\n    preamble", 1))
    api = MemoryClient(http, user)
    name = f"trip/{ending}"
    for thread in ("trip", name):
        body = {
            "model": "assistant",
            "messages": [{"role": "user", "content": f"hi {thread}"}],
            "metadata": {"thread_id": thread},
        }
        ok(api.send("POST", "/v1/chat/completions", body))
    path = f"/v1/threads/{quote(name, safe='')}"
    assert set(ids_of(api.get("/v1/threads"))) == {"trip", name}
    assert api.get(path)["id"] == name
    assert ok(api.send("PATCH", path, {"title": "To Oslo"}))["title"] == "To Oslo"
    assert api.get("/v1/threads/trip")["title"] is None
    change = {"agent": "assistant", "changes": {"topic": "skis"}}
    assert ok(api.send("PATCH", f"{path}/state", change))["thread_id"] == name
    shown = [
        api.get(f"{each}/state", agent="assistant")["state"]
        for each in (path, "/v1/threads/trip")
    ]
    assert shown == [{"topic": "skis"}, {}]
    lower = path.replace("%2F", "%2f")
    assert texts(api.get(f"{lower}/messages"))[-1] == f"hi {name}"
    assert ok(api.send("POST", f"{path}/end", {}))["thread_id"] == name
    assert len(api.get(f"{path}/sessions")["data"]) == 1
    asked = ok(api.send("DELETE", path), 202)
    assert asked["id"] == name
    ok(api.send("DELETE", path, confirmation=asked["confirmation"]))
    assert ids_of(api.get("/v1/threads")) == ["trip"]


@pytest.mark.parametrize("facts", ["keep", "forget"])
def test_deletion_needs_a_confirmation(client, fake, user, api, facts):
    say(client, user, "I like tea", "trip")
    say(client, user, "hi", "other")
    fact_id = learn_from(user, "trip", "Likes tea")
    kept = learn_from(user, "other", "Says hi")
    path, forgets = "/v1/threads/trip", facts == "forget"
    asked = ok(api.send("DELETE", path, facts=facts), 202)
    counts = {"messages": 2, "summaries": 0, "facts": int(forgets)}
    assert asked["would_delete"] == counts
    assert texts(api.get("/v1/threads/trip/messages"))[-1] == "I like tea"
    confirmed = {"confirmation": asked["confirmation"], "facts": facts}
    other = {**confirmed, "facts": "keep" if forgets else "forget"}
    for wrong in (other, {**confirmed, "confirmation": "x"}):
        refusal = api.refused("DELETE", path, **wrong)
        assert refusal["code"] == "confirmation_invalid"
    assert ok(api.send("DELETE", path, **confirmed))["deleted"] == counts
    assert ids_of(api.get("/v1/threads")) == ["other"]
    assert Fact.objects.get(pk=fact_id).status == ("deleted" if forgets else "active")
    assert Fact.objects.get(pk=kept).status == "active"
    entry = AuditEntry.objects.filter(action="thread.delete").latest("at")
    assert (entry.target, entry.details["facts"]) == ("trip", facts)
    # The same name is another thread now.
    say(client, user, "back", "trip")
    refusal = api.refused("DELETE", path, **confirmed)
    assert refusal["code"] == "confirmation_invalid"


def test_old_confirmation_is_refused(client, fake, user, api, monkeypatch):
    say(client, user, "hi", "trip")
    row = Thread.objects.get(user_id=identity.derive_user_id(user))
    monkeypatch.setattr(signing.time, "time", lambda: 1_700_000_000)
    old = signing.dumps(f"{row.user_id}:{row.pk}:False", salt=thread_deletion.SALT)
    monkeypatch.undo()
    refusal = api.refused("DELETE", "/v1/threads/trip", confirmation=old)
    assert refusal["code"] == "confirmation_expired"


# Turns that happened elsewhere.


def test_imported_messages_keep_their_times(client, user, api):
    start = dt.datetime(2026, 3, 1, 9, 30, tzinfo=dt.UTC)
    times = [start + dt.timedelta(minutes=minutes) for minutes in range(4)]
    messages = [
        {**message, "created_at": at.isoformat()}
        for message, at in zip(TURNS, times, strict=True)
    ]
    added = ok(add(api, messages=messages), 201)
    found = [each["created_at"] for each in added["data"]]
    assert found == [int(at.timestamp()) for at in times]


def test_turns_of_elsewhere_are_stored_and_learnt_from(client, fake, user, api):
    said = "2026-03-01T09:30:00Z"
    messages = [{**TURNS[0], "created_at": said}, *TURNS[1:]]
    added = ok(add(api, messages=messages), 201)
    assert texts(added) == [each["content"] for each in TURNS]
    assert len({each["completion_id"] for each in added["data"]}) == 2
    at = int(dt.datetime(2026, 3, 1, 9, 30, tzinfo=dt.UTC).timestamp())
    assert added["data"][0]["created_at"] == added["data"][1]["created_at"] == at
    assert added["data"][2]["created_at"] > at
    assert fake.requests == []
    jobs = [(job.payload["first"], job.payload["end"]) for job in extractions(user)]
    assert sorted(jobs) == [(0, 2), (2, 4)]
    say(client, user, "Where do I live?", "calls")
    sent = [text for _, text in prompt(fake.requests[-1])]
    assert sent[-5:] == [*texts(added), "Where do I live?"]


@pytest.mark.parametrize("more", [{"learn": False}, {"agent": "amnesiac"}])
def test_nothing_is_learnt_where_memory_is_off(api, user, more):
    assert add(api, **more).status_code == 201
    assert not extractions(user).exists()


def test_repeated_import_adds_nothing(api, stranger, user):
    first = add(api, key="call 1")
    again = add(api, key="call 1")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert len(extractions(user)) == 2
    changed = [{**TURNS[0], "content": "I moved to Rome"}, *TURNS[1:]]
    refusal = add(api, messages=changed, key="call 1")
    assert refusal.status_code == 409
    assert refusal.json()["error"]["code"] == "idempotency_key_reused"
    assert add(api, key="call 2").status_code == 201
    assert add(api, thread="others", key="call 1").status_code == 201
    assert add(stranger, key="call 1").status_code == 201
    assert len(api.get("/v1/threads/calls/messages")["data"]) == 8


def test_parallel_imports_with_one_key_store_once(api, user):
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: add(api, key="call"), range(4)))
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 201]
    assert len(api.get("/v1/threads/calls/messages")["data"]) == 4


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        (TURNS * 51, "messages"),
        (TURNS[1:], "messages"),
        (TURNS[:3], "messages"),
        ([{"role": "system", "content": "x"}, *TURNS], "messages.0.role"),
        ([{"role": "user", "content": ""}, *TURNS], "messages.0.content"),
        ([{"role": "user", "content": "a\0"}, *TURNS], "messages.0.content"),
        ([{"role": "user", "content": 7}, *TURNS], "messages.0.content"),
        ([{**TURNS[0], "created_at": "2999-01-01T00:00:00Z"}, *TURNS], "created_at"),
        ([{**TURNS[0], "created_at": "yesterday"}, *TURNS], "created_at"),
    ],
)
def test_wrong_messages_are_refused(api, user, messages, param):
    answer = add(api, messages=messages)
    assert answer.status_code == 400
    assert param.split(".")[-1] in answer.json()["error"]["param"]
    assert api.get("/v1/threads")["data"] == []


def test_wrong_agents_threads_and_keys_are_refused(api, user):
    refusal = add(api, agent="nobody")
    assert refusal.status_code == 404
    problem = refusal.json()["error"]
    assert (problem["param"], problem["code"]) == ("agent", "model_not_found")
    for more in ({"thread": "x" * 513}, {"key": ""}, {"key": "x" * 256}):
        assert add(api, **more).status_code == 400, more
    assert api.get("/v1/threads")["data"] == []
