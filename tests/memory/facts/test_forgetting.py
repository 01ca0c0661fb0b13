"""A forgotten fact is not told again, from wherever it could be."""

import threading
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection

from core.ids import TurnId, new_turn_id
from core.messages import Message
from memory.errors import FactUnknown
from memory.extraction import llm_call
from memory.facts import fact_store, forgetting
from memory.models import (
    AgentState,
    Fact,
    FactChange,
    FactMessage,
    StoredMessage,
    Thread,
)
from memory.recall import search
from memory.recall.types import Query
from memory.transcript import (
    message_cache,
    message_store,
    stored_replies,
    turn_lookup,
)
from memory.transcript.message_rows import NewMessage
from memory.transcript.withholding import TouchedFacts
from tests.memory.extraction_harness import (
    NOON,
    add_turn,
    change_payload,
    create_job,
    fact,
    list_facts,
    messages_of,
    new_user,
    propose_facts,
    run_due_jobs,
    run_job,
)
from tests.memory.facts.saving import save
from tests.memory.transcript.reading import recent
from tests.telemetry.sample_turns import store_turn

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("alone", "config")]

HOME = "I live at 5 Rua Augusta."
ECHO = "Noted: your flat on Augusta."
PAINT = "Which colour suits a kitchen?"


@pytest.fixture
def home(fake, owner) -> Fact:
    """A fact extracted from the first of two turns of a thread."""
    propose_facts(
        fake,
        fact("Lives at 5 Rua Augusta", "I live at 5 Rua Augusta", importance=9),
    )
    propose_facts(fake)
    add_turn(owner, HOME, ECHO)
    add_turn(owner, PAINT, "Yellow.")
    assert run_due_jobs() == 2
    return Fact.objects.get(user_id=owner)


def forget(found: Fact, **options) -> bool:
    return forgetting.forget(found.user_id, found.pk, by="user", **options)


def texts(owner, **condition) -> list[str]:
    """Return the texts of a user's messages."""
    rows = StoredMessage.objects.filter(thread__user_id=owner, **condition)
    return list(rows.order_by("id").values_list("text", flat=True))


def told(owner, **condition) -> list[str]:
    """Return the texts that are not withheld."""
    return texts(owner, is_withheld=False, **condition)


def find(owner, words: str) -> list[str]:
    return [hit.text for hit in search.search_messages(owner, Query(words), limit=20)]


def history(owner) -> list[str]:
    return [each.text for each in recent(owner, max_tokens=10_000).messages]


def test_source_and_reply_leave_search_and_history(home, owner):
    assert {HOME, ECHO} <= {*find(owner, "Augusta")}
    assert history(owner) == [HOME, ECHO, PAINT, "Yellow."]
    assert forget(home)
    assert find(owner, "Augusta") == []
    assert find(owner, "kitchen") == [PAINT, "Yellow."]
    assert history(owner) == [PAINT, "Yellow."]
    assert texts(owner) == [HOME, ECHO, PAINT, "Yellow."]


def test_withheld_message_is_not_found_by_a_stale_index(home, owner):
    rows = StoredMessage.objects.filter(thread__user_id=owner, text=HOME)
    rows.update(is_withheld=True)
    assert HOME not in find(owner, "Augusta")


def test_importance_is_set_back(home, owner):
    source = StoredMessage.objects.get(pk=home.message_id)
    assert source.importance == 0.9
    forget(home)
    source.refresh_from_db()
    assert source.importance == 0.5
    found = StoredMessage.objects.important(
        source.thread_id, before=9, min_importance=0.1, limit=9
    )
    assert [hit.text for hit in found] == ["Yellow.", PAINT]


def test_forgetting_twice_changes_nothing(home):
    assert [forget(home), forget(home)] == [True, False]
    assert FactChange.objects.filter(fact=home, action="deleted").count() == 1


def test_messages_of_other_users_are_untouched(home, fake):
    stranger = new_user()
    propose_facts(fake)
    run_job(add_turn(stranger, HOME, ECHO))
    with pytest.raises(FactUnknown):
        forgetting.forget(stranger, home.pk, by="user")
    forget(home)
    assert history(stranger) == [HOME, ECHO]
    assert {*find(stranger, "Augusta")} == {HOME, ECHO}


def test_repetition_in_other_words_is_withheld(home, owner, fake):
    propose_facts(fake, fact("Lives at 5 Rua Augusta", "the street is the same"))
    run_job(add_turn(owner, "No, the street is the same.", "Good."))
    assert FactMessage.objects.filter(fact=home).count() == 2
    forget(home)
    assert told(owner) == [PAINT, "Yellow."]


def test_message_with_the_same_words_is_withheld(home, owner, fake):
    propose_facts(fake)
    words = "Augusta, the rua: do trams stop there? I live at 5."
    run_job(add_turn(owner, words, "Yes.", thread="trams"))
    forget(home)
    assert told(owner) == [PAINT, "Yellow."]


def test_short_quote_withholds_no_other_message(owner, fake):
    propose_facts(fake, fact("Owns a cello", "yes"))
    run_job(add_turn(owner, "yes", "A cello!"))
    propose_facts(fake)
    run_job(add_turn(owner, "yes, it rains", "Oh."))
    forget(Fact.objects.get(user_id=owner))
    assert told(owner) == ["yes, it rains", "Oh."]


def test_reply_that_used_the_fact_is_withheld(home, owner):
    asked = add_turn(owner, "Where is a baker?", "On Augusta, near 5.", thread="bread")
    other = add_turn(owner, "And a cinema?", "On Liberdade.", thread="bread")
    for job in (asked, other):
        store_turn(
            user_id=owner, turn_id=job.turn_id, recalled_fact_ids=[home.public_id]
        )
    forget(home)
    assert told(owner, thread__name="bread") == ["And a cinema?", "On Liberdade."]


def test_words_before_a_correction_are_withheld(owner, fake):
    propose_facts(fake)
    run_job(add_turn(owner, "The harp is what I play.", "Nice."))
    saved = save(owner, "Plays the harp", by="user", source="user")
    fact_store.edit_fact(owner, saved.fact_id, {"content": "Is a musician"}, by="user")
    forget(Fact.objects.get(pk=saved.fact_id))
    assert told(owner) == []


def test_tool_calls_are_withheld_with_their_exchange(owner, fake):
    """What remains begins with the user, and has no result without its call."""
    propose_facts(fake, fact("Lives at 5 Rua Augusta", "I live at 5 Rua Augusta"))
    run_job(add_turn(owner, HOME, "(calls)", "(result)", "Done.", roles="uata"))
    propose_facts(fake)
    run_job(add_turn(owner, PAINT, "Yellow."))
    forget(Fact.objects.get(user_id=owner))
    assert history(owner) == [PAINT, "Yellow."]


def test_only_one_exchange_of_an_imported_conversation_is_withheld(owner, fake):
    propose_facts(fake, fact("Lives at 5 Rua Augusta", "I live at 5 Rua Augusta"))
    run_job(add_turn(owner, "Hello.", "Hi.", HOME, ECHO, PAINT, "Yellow."))
    forget(Fact.objects.get(user_id=owner))
    assert history(owner) == ["Hello.", "Hi.", PAINT, "Yellow."]


def test_cached_history_is_read_again(home, owner):
    message_store.read_thread(owner, "")
    forget(home)
    assert history(owner) == [PAINT, "Yellow."]


def test_older_messages_stay_if_the_newest_are_withheld(owner):
    add_turn(owner, PAINT, "Yellow.")
    steps = ["(call)", "(result)"] * 40
    job = add_turn(owner, HOME, *steps, roles="u" + "at" * 40)
    saved = save(owner, "Lives on Augusta", message_id=messages_of(job)[2].pk)
    forgetting.forget(owner, saved.fact_id, by="user")
    message_cache.MESSAGE_CACHE.drop((owner, ""))
    assert history(owner) == [PAINT, "Yellow."]


def test_other_branch_is_continued_without_it(owner):
    """As by `previous_response_id`."""
    add_turn(owner, PAINT, "Yellow.")
    job = add_turn(owner, HOME, ECHO, "Which floor?", "The second.")
    add_turn(owner, "Or blue?", "No.")
    rows = messages_of(job).filter(turn_id=job.turn_id)
    rows.update(is_active=False)
    rows.filter(position=5).update(finish_reason="stop")
    saved = save(owner, "Lives on Augusta", message_id=rows[0].pk)
    forgetting.forget(owner, saved.fact_id, by="user")
    line = stored_replies.read_until(owner, TurnId(job.turn_id))
    shown = [each.text for each in line.recent(max_tokens=10_000).messages]
    assert shown == [PAINT, "Yellow.", "Which floor?", "The second."]


def test_stored_calls_of_a_resent_reply_stay_withheld(home, owner):
    """The client sends its own words; what the server had stored is not added."""
    reply = StoredMessage.objects.filter(thread__user_id=owner, text=ECHO)
    reply.update(digest=b"echo")
    assert [*stored_replies.read_replies(owner, "", [b"echo"])] == [b"echo"]
    forget(home)
    assert stored_replies.read_replies(owner, "", [b"echo"]) == {}


def test_judges_do_not_see_withheld_messages(home, owner):
    reply = StoredMessage.objects.get(thread__user_id=owner, text="Yellow.")
    StoredMessage.objects.filter(pk=reply.pk).update(finish_reason="stop")
    forget(home)
    turn = turn_lookup.read_turn(
        owner, TurnId(reply.turn_id), earlier=9, max_messages=9
    )
    assert turn is not None
    assert turn.earlier == []


# Extraction.


def test_withheld_message_is_not_extracted_again(home, owner, fake):
    forget(home)
    thread = Thread.objects.get(user_id=owner)
    asked = len(fake.requests)
    run_job(create_job(thread, TurnId(new_turn_id()), 0, 2))
    assert len(fake.requests) == asked
    assert list_facts(owner) == [("Lives at 5 Rua Augusta", "deleted")]
    assert find(owner, "Augusta") == []


def test_context_of_extraction_does_not_contain_it(home, owner, fake):
    forget(home)
    propose_facts(fake)
    run_job(add_turn(owner, "As I said.", "Yes."))
    sent = str(fake.bodies[-1])
    assert PAINT in sent
    assert "Augusta" not in sent


@pytest.mark.parametrize(
    "content", ["Lives at 5 Rua Augusta", "Lives in 5, Rua Augusta"]
)
def test_fact_forgotten_before_extraction_is_not_learned(home, owner, fake, content):
    """The message was not known as its source; it is withheld from then on."""
    late = add_turn(owner, "My street: Augusta.", "Ok.", at=NOON + timedelta(hours=1))
    forget(home)
    propose_facts(fake, fact(content, "My street: Augusta"))
    run_job(late)
    assert list_facts(owner) == [("Lives at 5 Rua Augusta", "deleted")]
    assert told(owner) == [PAINT, "Yellow."]


def test_all_messages_that_mention_it_late_are_withheld(home, owner, fake):
    lines = ["My street: Augusta.", "Ok.", "Augusta it is.", "Fine."]
    late = add_turn(owner, *lines, at=NOON + timedelta(hours=1))
    forget(home)
    propose_facts(
        fake,
        fact("Lives at 5 Rua Augusta", "My street: Augusta"),
        fact("Lives in 5, Rua Augusta", "Augusta it is"),
    )
    run_job(late)
    assert told(owner) == [PAINT, "Yellow."]


def test_fact_forgotten_during_extraction_is_not_learned(
    home, owner, fake, monkeypatch
):
    again = create_job(Thread.objects.get(user_id=owner), TurnId(new_turn_id()), 0, 2)
    propose_facts(fake, fact("Resides near a river", "I live at 5 Rua Augusta"))
    call_model = llm_call.call_model

    def forget_meanwhile(*args, **options):
        forget(home)
        return call_model(*args, **options)

    monkeypatch.setattr(llm_call, "call_model", forget_meanwhile)
    run_job(again)
    assert list_facts(owner) == [("Lives at 5 Rua Augusta", "deleted")]


def test_user_may_say_it_again(home, owner, fake):
    forget(home)
    propose_facts(fake, fact("Lives at 5 Rua Augusta", "I live at 5 Rua Augusta"))
    later = Fact.objects.get(pk=home.pk).updated_at + timedelta(hours=1)
    run_job(add_turn(owner, HOME, "Again!", at=later))
    assert sorted(status for _, status in list_facts(owner)) == ["active", "deleted"]
    assert "Again!" in history(owner)


def test_copies_in_a_resent_conversation_are_withheld(home, owner, fake):
    """The client's conversation was not recognised, and is stored as a whole."""
    forget(home)
    resent = add_turn(owner, HOME, ECHO, "Thanks!", "Welcome.", thread="copy")
    change_payload(resent, first=2)
    propose_facts(fake)
    run_job(resent)
    assert "Augusta" not in str(fake.bodies[-1])
    assert told(owner, thread__name="copy") == ["Thanks!", "Welcome."]


# Neighbours in time.


def test_superseded_fact_stays_in_the_past(owner):
    old = save(owner, "Lives in Bonn", said_at=NOON)
    new = save(owner, "Lives in Rome", said_at=NOON + timedelta(days=1))
    assert new.superseded == old.fact_id
    forgetting.forget(owner, new.fact_id, by="user")
    assert save(owner, "Lives in Bonn", said_at=NOON).outcome == "outdated"
    assert dict(list_facts(owner)) == {
        "Lives in Bonn": "superseded",
        "Lives in Rome": "deleted",
    }


def test_forgetting_the_past_keeps_the_present(owner):
    old = save(owner, "Lives in Bonn", said_at=NOON)
    save(owner, "Lives in Rome", said_at=NOON + timedelta(days=1))
    forgetting.forget(owner, old.fact_id, by="user")
    assert dict(list_facts(owner)) == {
        "Lives in Bonn": "deleted",
        "Lives in Rome": "active",
    }


def test_past_does_not_show_a_forgotten_fact(home, owner):
    before = Fact.objects.get(pk=home.pk).created_at + timedelta(microseconds=1)
    assert fact_store.page_facts(owner, as_of=before)[0] == [home]
    forget(home)
    for status in ("active", "deleted", None):
        assert fact_store.page_facts(owner, as_of=before, status=status)[0] == []
    with pytest.raises(FactUnknown, match="forgotten"):
        Fact.objects.get(pk=home.pk).rewind(before)
    now = Fact.objects.get(pk=home.pk).updated_at
    assert fact_store.page_facts(owner, as_of=now, status="deleted")[0] == [home]


# Purge.


def test_purge_deletes_the_fact_and_the_texts(home, owner):
    newer = save(owner, "Lives at 7 Rua Garrett", supersedes=home.pk)
    assert newer.superseded == home.pk
    other = save(owner, "Knows a baker")
    note = FactChange.objects.filter(fact_id=other.fact_id)
    note.update(reason=f"superseded by: {home.content}")
    assert forget(home, purge=True)
    assert not Fact.objects.filter(pk=home.pk).exists()
    assert not FactChange.objects.filter(fact_id=home.pk).exists()
    assert note.get().reason == ""
    assert texts(owner) == ["", "", PAINT, "Yellow."]
    assert history(owner) == [PAINT, "Yellow."]


def test_fact_is_purged_before_or_after_a_turn_links_it(home, owner, monkeypatch):
    entries = [NewMessage(Message("user", "As I said."))]
    touched = TouchedFacts(saved=[home.pk])
    apply = TouchedFacts.apply
    purge = threading.Thread(target=close_after, args=[partial(forget, home, purge=1)])

    def apply_meanwhile(*args) -> bool:
        is_withheld = apply(*args)
        purge.start()
        purge.join(0.3)
        return is_withheld

    monkeypatch.setattr(TouchedFacts, "apply", apply_meanwhile)
    message_store.append_turn(owner, "b", new_turn_id(), entries, facts=touched)
    purge.join()
    monkeypatch.undo()
    assert list_facts(owner) == []
    assert texts(owner, thread__name="b") == [""]
    message_store.append_turn(owner, "c", new_turn_id(), entries, facts=touched)
    assert texts(owner, thread__name="c") == ["As I said."]


def close_after(work) -> None:
    """Close the connection of a thread."""
    try:
        work()
    finally:
        connection.close()


def test_purge_may_follow_forgetting(home, owner):
    forget(home)
    forget(home, purge=True)
    assert texts(owner) == ["", "", PAINT, "Yellow."]
    assert list_facts(owner) == []


def test_episodes_of_deleted_threads_are_deleted(home):
    texts = ("The user moves to 5 Rua Augusta. They live there.", "A trip to Oslo.")
    for content in texts:
        Fact.objects.create(
            user_id=home.user_id,
            content=content,
            category="episode",
            source="extraction",
            said_at=NOON,
            created_at=NOON,
            updated_at=NOON,
        )
    forget(home)
    episodes = Fact.objects.filter(user_id=home.user_id, category="episode")
    assert [each.content for each in episodes] == ["A trip to Oslo."]


STATE = {
    "concerns": ["lives at 5 Rua Augusta", "sleeps badly"],
    "note": "At 5 Rua Augusta they live well.",
    "progress": {"week": 2, "place": "lives: 5 Rua Augusta", "lives": ["5 Augusta"]},
    "visits": [{"street": "Rua Augusta", "lives": 5}, {"street": "Baixa"}],
    "steps": ["rua", "augusta", "5", "lives"],
    "lives": True,
}
LEFT = {
    "concerns": ["sleeps badly"],
    "progress": {"week": 2, "lives": ["5 Augusta"]},
    "visits": [{"street": "Baixa"}],
    "steps": ["rua", "augusta", "5", "lives"],
    "lives": True,
}


def store_state(owner, thread: str, values) -> AgentState:
    row, _ = Thread.objects.get_or_create(
        user_id=owner, name=thread, defaults={"created_at": NOON, "updated_at": NOON}
    )
    return AgentState.objects.change(row.pk, "coach", lambda _: values, NOON)


@pytest.mark.parametrize("purge", [False, True])
def test_states_of_agents_lose_what_mentions_it(home, owner, purge):
    here, there = (store_state(owner, name, STATE) for name in ("", "other"))
    unrelated = store_state(owner, "third", {"concerns": ["sleeps badly"]})
    stranger = store_state(new_user(), "", STATE)
    forget(home, purge=purge)
    for row in (here, there):
        row.refresh_from_db()
        assert row.values == LEFT
        assert row.updated_at > NOON
    for row in (unrelated, stranger):
        before = row.values
        row.refresh_from_db()
        assert (row.values, row.updated_at) == (before, NOON)
