"""The facts about a user: list, search, edit and delete."""

import uuid

import pytest

from access.models import AuditEntry
from access.users import identity
from core.ids import UserId, new_turn_id
from core.messages import Message
from memory.facts import fact_store, public_ids
from memory.facts.types import FactDraft
from memory.models import Fact, Passage
from memory.models import StoredMessage as Row
from memory.recall import sync_search
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage
from tests.gateway.calls import error
from tests.gateway.memory_client import CONFIG_WITH_MEMORY, ok
from tests.memory.facts.saving import save

pytestmark = pytest.mark.database

SECRET = "plums-and-nothing-else"


@pytest.fixture
def alice(server, user):
    return identity.derive_user_id(user)


def facts_url(user_id, fact_id=None):
    path = f"/admin/users/{user_id}/facts"
    return path if fact_id is None else f"{path}/mem_{fact_id.hex}"


def audit_entries(user_id):
    """Return the audit entries about a user's facts; they never quote a fact."""
    entries = AuditEntry.objects.filter(details__user=str(user_id)).order_by("id")
    assert SECRET not in "".join(f"{e.details}{e.target}" for e in entries)
    return [(entry.action, entry.target, entry.details) for entry in entries]


def distinct_text(number):
    """Return a text without words of the other texts."""
    return f"Likes {chr(97 + number // 26) * 4}{chr(97 + number % 26) * 5}"


def contents(script, user_id, **query):
    return [
        fact["content"]
        for fact in ok(script.get(facts_url(user_id), params=query))["data"]
    ]


def test_facts_are_listed_newest_first_and_filtered(script, alice):
    for number in range(60):
        kind = "event" if number % 2 else "fact"
        fact_store.save_drafts(
            alice, [FactDraft(distinct_text(number), category=kind)], [None], by="user"
        )
    first = ok(script.get(facts_url(alice)))
    assert [fact["content"] for fact in first["data"]][:2] == [
        distinct_text(59),
        distinct_text(58),
    ]
    assert first["has_more"]
    rest = contents(script, alice, after=first["last_id"])
    assert rest == [distinct_text(number) for number in range(9, -1, -1)]
    assert contents(script, alice, category="event")[0] == distinct_text(59)
    assert contents(script, alice, status="pending_review") == []
    assert (
        error(script.get(facts_url(alice), params={"status": "x"}), 400)["param"]
        == "status"
    )


def test_fact_is_added_manually(script, alice):
    created = ok(
        script.post(
            facts_url(alice), json={"content": SECRET, "category": "preference"}
        ),
        201,
    )
    assert (created["source"], created["outcome"]) == ("operator", "created")
    again = ok(script.post(facts_url(alice), json={"content": SECRET}), 201)
    assert (again["id"], again["outcome"]) == (created["id"], "unchanged")
    (first, _) = audit_entries(alice)
    assert first == (
        "memory.create",
        created["id"],
        {"user": str(alice), "outcome": "created"},
    )


def test_rule_is_added_in_the_form_and_listed(script, browser, alice):
    rule = {"content": "Answer in German.", "category": "rule", "key": "Language"}
    saved = ok(script.post(facts_url(alice), json=rule), 201)
    assert (saved["status"], saved["key"]) == ("active", "language")
    listed = ok(script.get(facts_url(alice), params={"category": "rule"}))["data"]
    assert [each["id"] for each in listed] == [saved["id"]]
    changed = {"content": "Answer in French."}
    ok(script.patch(f"{facts_url(alice)}/{saved['id']}", json=changed))
    told = Fact.objects.in_every_prompt(alice, limit=0)
    assert [fact.content for fact in told.rules] == ["Answer in French."]
    page = browser.get(facts_url(alice), params={"category": "rule"}).text
    assert "Answer in French." in page
    assert "<option>rule</option>" in page


def test_fact_is_corrected_and_history_kept(script, alice):
    fact_id = save(alice, "Lives in Lisbon").fact_id
    changes = {"content": "Lives in Porto", "importance": 8, "reason": "moved"}
    changed = ok(script.patch(facts_url(alice, fact_id), json=changes))
    assert (changed["content"], changed["importance"]) == ("Lives in Porto", 8)
    data = ok(script.get(facts_url(alice, fact_id)))
    first, second = data["history"]
    assert (first["action"], second["action"]) == ("created", "updated")
    assert (second["by"], second["reason"]) == ("operator", "moved")
    ((action, target, details),) = audit_entries(alice)
    assert (action, target) == ("memory.change", f"mem_{fact_id.hex}")
    assert details["fields"] == ["content", "importance"]


def test_fact_is_pinned_reviewed_restored_and_deleted(script, alice):
    fact_id = save(alice, "Lives in Lisbon").fact_id
    path = facts_url(alice, fact_id)
    for _ in range(2):  # The second one changes nothing.
        assert ok(script.patch(path, json={"pinned": True}))["pinned"]
    assert (
        ok(script.patch(path, json={"status": "pending_review"}))["status"]
        == "pending_review"
    )
    assert contents(script, alice) == []
    assert contents(script, alice, status="pending_review") == ["Lives in Lisbon"]
    assert ok(script.patch(path, json={"status": "active"}))["status"] == "active"
    assert ok(script.delete(path))["deleted"]
    assert ok(script.delete(path))["deleted"]
    assert Fact.objects.get(pk=fact_id).status == "deleted"
    actions = [action for action, *_ in audit_entries(alice)]
    assert actions == ["memory.change"] * 3 + ["memory.delete"]


def test_fact_is_superseded_by_a_new_one(script, alice):
    old = save(alice, "Works as a baker", category="fact").fact_id
    body = {
        "content": "Works as a pilot",
        "category": "fact",
        "supersedes": f"mem_{old.hex}",
    }
    created = ok(script.post(facts_url(alice), json=body), 201)
    assert (created["outcome"], created["superseded"]) == (
        "superseded",
        f"mem_{old.hex}",
    )
    assert contents(script, alice) == ["Works as a pilot"]
    assert ok(script.get(facts_url(alice, old)))["superseded_by"] == created["id"]


def test_null_clears_and_omitted_fields_stay(script, alice):
    fact_id = save(alice, "Lives in Lisbon", key="home", importance=9).fact_id
    path = facts_url(alice, fact_id)
    dated = ok(script.patch(path, json={"valid_from": "2026-03-01"}))
    assert (dated["valid_from"], dated["key"]) == ("2026-03-01T00:00:00Z", "home")
    cleared = ok(script.patch(path, json={"key": None, "valid_from": None}))
    assert (cleared["key"], cleared["valid_from"]) == (None, None)
    assert cleared["importance"] == 9
    assert ok(script.patch(path, json={}))["content"] == "Lives in Lisbon"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "content"),
        ({"content": " "}, "content"),
        ({"content": "x" * 2001}, "content"),
        ({"content": "x", "importance": 11}, "importance"),
        ({"content": "x", "category": "plums"}, "category"),
        ({"content": "x", "colour": "red"}, "colour"),
        ({"content": "x", "valid_from": "soon"}, "valid_from"),
        ({"content": "x", "expires_at": "2020-01-01"}, "expires_at"),
    ],
)
def test_invalid_fact_is_refused(script, alice, body, param):
    refusal_page = error(script.post(facts_url(alice), json=body), 400)
    assert refusal_page["param"] == param
    assert not Fact.objects.filter(user_id=alice).exists()


def test_duplicate_key_is_refused(script, alice):
    save(alice, "Lives in Lisbon", key="home")
    fact_id = save(alice, "Has a cat").fact_id
    refusal_page = error(
        script.patch(facts_url(alice, fact_id), json={"key": "home"}), 400
    )
    assert refusal_page["code"] == "key_taken"


def test_facts_of_another_user_are_404(script, alice):
    fact_id = save(UserId(uuid.uuid4()), "Likes plums").fact_id
    for response in (
        script.get(facts_url(alice, fact_id)),
        script.delete(facts_url(alice, fact_id)),
        script.patch(facts_url(alice, fact_id), json={"pinned": True}),
        script.get(f"{facts_url(alice)}/plums"),
    ):
        assert error(response, 404)["code"] == "memory_not_found"
    assert Fact.objects.get(pk=fact_id).status == "active"


def test_viewers_are_read_only(viewer, user):
    alice = identity.derive_user_id(user)
    fact_id = save(alice, "Likes plums").fact_id
    assert viewer.get(facts_url(alice)).status_code == 200
    for response in (
        viewer.post(facts_url(alice), json={"content": "x"}),
        viewer.patch(facts_url(alice, fact_id), json={"pinned": True}),
        viewer.delete(facts_url(alice, fact_id)),
    ):
        assert response.status_code == 403


# Searching.


@pytest.fixture
def memory_on(configure):
    configure(CONFIG_WITH_MEMORY)


def save_facts(user_id, *contents):
    """Save facts with vectors, as a turn would."""
    for content in contents:
        fact_store.save_drafts(
            user_id,
            [FactDraft(content)],
            [sync_search.embed_fact(content, "general").embedded],
            by="extraction",
        )


def test_search_explains_each_match(script, memory_on, alice):
    save_facts(alice, "Has a cat called Minka", "Plays the cello", "Works as a baker")
    found = ok(script.get(facts_url(alice), params={"q": "the cello"}))
    first, *_ = found["data"]
    assert first["content"] == "Plays the cello"
    assert first["explain"]["similarity"] > 0
    assert first["explain"]["terms"] > 0
    assert first["explain"]["ranks"]["similarity"] == 1
    assert found["embedding"].startswith("hash")


def test_past_messages_are_searchable(script, memory_on, alice):
    message_store.append_turn(
        alice, "", new_turn_id(), [NewMessage(Message("user", "I bought plums"), 5)]
    )
    row = Row.objects.get(thread__user_id=alice)
    Passage.objects.index_messages(
        alice, row.thread_id, [(row.pk, 0, row.text, None, "")]
    )
    found = ok(script.get(facts_url(alice), params={"q": "plums", "in": "messages"}))[
        "data"
    ]
    assert [each["content"] for each in found] == ["I bought plums"]
    assert ok(script.get(facts_url(alice), params={"q": "plums"}))["data"] == []


def test_search_page_shows_the_memory_prompt(browser, memory_on, alice):
    save_facts(alice, "Plays the cello")
    page = browser.get(f"{facts_url(alice)}?q=cello").text
    assert "Known about the user:" in page
    assert "[general] Plays the cello" in page
    assert "vector" in page


def test_search_without_memory_is_lexical(browser, alice):
    save(alice, "Plays the cello")
    page = browser.get(f"{facts_url(alice)}?q=cello").text
    assert "Plays the cello" in page
    assert "no agent has memory" in page


# Pages.


@pytest.fixture
def known_user(alice):
    """A user with a stored turn."""
    message_store.append_turn(
        alice, "", new_turn_id(), [NewMessage(Message("user", "Hi"), 5)]
    )
    return alice


def test_unknown_user_page_is_404(browser, alice):
    page = browser.get(facts_url(alice))
    assert page.status_code == 404
    assert "No such user" in page.text


def test_forms_add_change_and_delete_a_fact(browser, known_user):
    page = browser.submit(
        facts_url(known_user), {"content": "Likes plums", "importance": "7"}
    )
    assert "Fact added" in page.text
    fact = Fact.objects.get(user_id=known_user)
    path = facts_url(known_user, fact.id)
    everything = {
        "_method": "PATCH",
        "content": "Likes figs",
        "category": "preference",
        "importance": "6",
        "key": "fruit",
        "valid_from": "2026-03-01",
        "pinned": "on",
    }
    assert "Saved" in browser.submit(path, everything).text
    fact.refresh_from_db()
    assert (fact.content, fact.key, fact.is_pinned) == ("Likes figs", "fruit", True)
    emptied = {**everything, "key": "", "valid_from": "", "pinned": "false"}
    browser.submit(path, emptied)
    fact.refresh_from_db()
    assert (fact.key, fact.valid_from, fact.is_pinned) == (None, None, False)
    assert "Pin: done" in browser.submit(f"{path}/pin", {}, form_page=path).text
    fact.refresh_from_db()
    assert (fact.content, fact.is_pinned) == ("Likes figs", True)
    assert "Forget: done" in browser.submit(path, {"_method": "DELETE"}).text


def test_form_of_an_episode_has_no_category(browser, known_user):
    fact_id = save(known_user, "They spoke of figs.").fact_id
    Fact.objects.filter(pk=fact_id).update(category="episode")
    path = facts_url(known_user, fact_id)
    assert 'name="category"' not in browser.get(path).text
    assert "<option>episode" not in browser.get(facts_url(known_user)).text
    sent = {"_method": "PATCH", "content": "They spoke of plums.", "importance": "5"}
    assert "Saved" in browser.submit(path, sent).text
    fact = Fact.objects.get(pk=fact_id)
    assert (fact.content, fact.category) == ("They spoke of plums.", "episode")


def test_refused_form_keeps_its_input(browser, known_user):
    page = browser.submit(
        facts_url(known_user), {"content": "Likes plums", "importance": "70"}
    )
    assert page.status_code == 400
    assert "importance" in page.text
    assert ">Likes plums</textarea>" in page.text
    fact_id = save(known_user, "Has a cat").fact_id
    fields = {"_method": "PATCH", "content": "Has a dog", "importance": "x"}
    more = {"valid_from": "2026-03-01", "reason": "so they say", "pinned": "on"}
    page = browser.submit(facts_url(known_user, fact_id), {**fields, **more})
    assert page.status_code == 400
    form = page.text.partition("Edit fact")[2].partition("</form>")[0]
    assert 'data-param="importance"' in form
    assert ">Has a dog</textarea>" in form
    assert 'value="2026-03-01"' in form
    assert 'value="so they say"' in form
    assert "checked" in form


def test_form_of_a_pinned_fact_is_checked(browser, known_user):
    fact_id = save(known_user, "Has a cat", is_pinned=True).fact_id
    page = browser.get(facts_url(known_user, fact_id))
    form = page.text.partition("Edit fact")[2].partition("</form>")[0]
    assert '<input type="checkbox" name="pinned" checked>' in form


def test_refused_form_keeps_the_superseded_fact(browser, known_user):
    fact_id = public_ids.format_fact_id(save(known_user, "Has a cat").fact_id)
    fields = {"supersedes": fact_id, "content": "Has a dog", "importance": "x"}
    page = browser.submit(facts_url(known_user), fields)
    form = page.text.partition("Add a fact")[2]
    assert f'<input type="hidden" name="supersedes" value="{fact_id}">' in form


def test_forms_for_missing_facts_report_it(browser, known_user):
    missing = browser.submit(
        facts_url(known_user, uuid.uuid4()),
        {"_method": "PATCH", "content": "x"},
        form_page=facts_url(known_user),
    )
    assert missing.status_code == 404
    assert "no such fact" in missing.text
    stranger = browser.submit(
        facts_url(uuid.uuid4()), {"content": ""}, form_page=facts_url(known_user)
    )
    assert stranger.status_code == 400
    assert "content" in stranger.text


# All users.


def test_facts_of_all_users_are_listed(script, browser, known_user, user):
    fact_id = save(known_user, "Likes plums").fact_id
    save(UserId(uuid.uuid4()), "Likes figs")
    found = ok(script.get("/admin/facts"))["data"]
    assert [fact["content"] for fact in found[:2]] == ["Likes figs", "Likes plums"]
    page = browser.get(f"/admin/facts?user={user}").text
    assert f'href="{facts_url(known_user, fact_id)}"' in page
    assert "Likes figs" not in page


def test_memory_page_of_browsers_lists_facts(browser):
    assert browser.get("/admin/memory").headers["location"] == "/admin/facts"


def test_search_over_all_users_is_refused(script, server):
    refusal = error(script.get("/admin/facts?q=plums"), 400)
    assert refusal["param"] == "q"


def test_chosen_facts_are_forgotten_and_restored(script, alice):
    ids = [f"mem_{save(alice, text).fact_id.hex}" for text in ("Has a cat", "Sings")]
    for action, status in (("forget", "deleted"), ("restore", "active")):
        path = f"/admin/facts?action={action}"
        results = ok(script.post(path, json={"ids": ids}))["data"]
        assert [each["is_changed"] for each in results] == [True, True]
        shown = [ok(script.get(f"{facts_url(alice)}/{each}")) for each in ids]
        assert [fact["status"] for fact in shown] == [status, status]
    passages = Passage.objects.filter(user_id=alice)
    assert passages.exclude(embedding_error="").count() == 2  # The sweep embeds them.
    changes = [(action, target) for action, target, _ in audit_entries(alice)]
    assert changes == [
        (action, each) for action in ("memory.delete", "memory.change") for each in ids
    ]


def test_fact_is_purged_with_its_message(script, browser, alice):
    turn_id = new_turn_id()
    entries = [
        NewMessage(Message("user", SECRET)),
        NewMessage(Message("assistant", ".")),
    ]
    message_store.append_turn(alice, "", turn_id, entries)
    source = Row.objects.get(turn_id=turn_id, role="user")
    fact_id = save(alice, f"Likes {SECRET}", message_id=source.pk).fact_id
    path = facts_url(alice, fact_id)
    messages = f"/admin/users/{alice}/messages"
    ok(script.post(f"{path}/forget"))
    shown = ok(script.get(messages))["data"]
    assert [(each["is_withheld"], each["content"]) for each in shown] == [
        (True, SECRET),
        (True, "."),
    ]
    assert "withheld</span>" in browser.get(f"/admin/users/{alice}").text
    assert "cannot be undone" in browser.get(path).text
    name = f"mem_{fact_id.hex}"
    gone = {"id": name, "object": "memory.deleted", "deleted": True}
    assert ok(script.post(f"{path}/purge")) == gone
    error(script.get(path), 404)
    assert [each["content"] for each in ok(script.get(messages))["data"]] == ["", ""]
    assert audit_entries(alice)[-1] == (
        "memory.delete",
        name,
        {"user": str(alice), "purge": True},
    )


def test_fact_is_shown_as_of_a_past_time(script, browser, alice):
    fact_id = save(alice, "Lives in Lisbon").fact_id
    path = facts_url(alice, fact_id)
    then = Fact.objects.get(pk=fact_id).created_at.isoformat()
    ok(script.patch(path, json={"content": "Lives in Porto"}))
    past = ok(script.get(path, params={"as_of": then}))
    assert past["content"] == "Lives in Lisbon"
    assert [step["action"] for step in past["history"]] == ["created"]
    assert "Edit fact" not in browser.get(f"{path}?as_of=2100-01-01").text
    too_early = script.get(path, params={"as_of": "2020-01-01"})
    assert "not known then" in error(too_early, 404)["message"]


# Held facts.


def hold(alice, content: str, held_for: str = "consent") -> str:
    return f"mem_{save(alice, content, held_for=held_for).fact_id.hex}"


def test_held_facts_are_accepted_and_rejected(script, alice):
    ids = [hold(alice, "Has a cat"), hold(alice, "Sings")]
    others = [hold(alice, "Has a dog"), hold(alice, "Dances")]
    for chosen, action, status in (
        (ids, "accept", "active"),
        (others, "reject", "deleted"),
    ):
        path = f"/admin/facts?action={action}"
        results = ok(script.post(path, json={"ids": chosen}))["data"]
        assert [each["is_changed"] for each in results] == [True, True]
        again = ok(script.post(path, json={"ids": chosen}))["data"]
        assert [each["is_changed"] for each in again] == [False, False]
        assert f"it is {status} now" in again[0]["error"]
        one = f"{facts_url(alice)}/{chosen[0]}/{action}"
        assert error(script.post(one), 409)["code"] == "memory_not_pending"
        shown = [ok(script.get(f"{facts_url(alice)}/{each}")) for each in chosen]
        assert [fact["status"] for fact in shown] == [status, status]


def test_accepted_repetition_leads_to_the_known_fact(script, alice):
    known = save(alice, "Owns a dog called Rex").fact_id
    held = hold(alice, "Has a dog named Rex")
    data = ok(script.post(f"{facts_url(alice)}/{held}/accept"))
    assert data["id"] == f"mem_{known.hex}"


def test_held_facts_are_listed_by_their_reason(script, browser, alice):
    hold(alice, "Has a cat")
    hold(alice, "Sings", "session")
    assert contents(script, alice, held_for="session") == ["Sings"]
    assert contents(script, alice, held_for="conflict") == []
    assert len(contents(script, alice, status="pending_review")) == 2
    path = facts_url(alice)
    refusal = error(script.get(path, params={"held_for": "x"}), 400)
    assert refusal["param"] == "held_for"
    page = browser.get(path, params={"held_for": "session"}).text
    assert "until the session ends" in page


def test_held_fact_links_to_what_it_contradicts(browser, alice):
    known = save(alice, "Lives in Porto").fact_id
    held = public_ids.parse_fact_id(hold(alice, "Lives in Lisbon", "conflict"))
    Fact.objects.filter(pk=held).update(replaces_id=known)
    page = browser.get(facts_url(alice, held)).text
    assert facts_url(alice, known) in page
