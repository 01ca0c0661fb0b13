"""The diagnostics of turns: what prompts were made of, and how long parts took."""

import numpy as np
import pytest

from access.users import identity
from memory.extraction import extraction_tasks
from memory.recall.index.retrieval_types import parse_query
from memory.recall.types import Embedded, Query
from tasks.models import Task
from telemetry.models import Turn
from telemetry.presentation import diagnostics_text
from telemetry.types import Diagnostics
from tests.gateway.calls import ask
from tests.gateway.memory.test_recall import REMEMBERING, know
from tests.gateway.memory_client import MemoryClient, store_message

pytestmark = pytest.mark.database

SHOWN = "telemetry: {sqlite: {show_to_users: true}}\n"
LIMITED = "limits: [{per: principal, requests_per_hour: 100}]\n"


@pytest.fixture
def server(running, configure) -> str:
    configure(REMEMBERING + SHOWN)
    return running


def last_turn(user) -> Turn:
    turns = Turn.objects.filter(user_id=identity.derive_user_id(user))
    return turns.newest_first()[0]


def diagnostics(user) -> Diagnostics:
    found = last_turn(user).diagnostics
    assert found is not None
    return found


def test_turn_tells_what_its_prompt_was_made_of(client, user):
    know(user, "The user lives in Lisbon")
    know(user, "The user is allergic to nuts", is_pinned=True)
    know(user, "Answer briefly", category="rule")
    ask(client, user, "Lisbon?")
    ask(client, user, "Is Lisbon far?")
    found = diagnostics(user)
    assert (found.recall, found.embedder.partition(":")[0]) == ("both", "hash")
    assert found.corpus in ("small", "database")
    assert (found.history, found.facts, found.rules) == (2, 2, 1)
    assert (found.quotes, found.summaries) == (0, 0)


def test_older_messages_are_quoted(client, http, user):
    store_message(MemoryClient(http, user), "My cat is called Miu", "cats")
    ask(client, user, "What is my cat called?")
    found = diagnostics(user)
    assert (found.history, found.facts, found.quotes) == (0, 0, 1)


def test_first_prompt_of_a_session_has_an_episode(client, user):
    know(user, "The user planned a trip to Oslo", category="episode")
    ask(client, user, "Hello")
    assert diagnostics(user).episodes == 1
    ask(client, user, "Hello again")
    assert diagnostics(user).episodes == 0


def test_times_contain_each_other(client, user):
    ask(client, user, "Hello")
    found = diagnostics(user)
    assert 0 < found.read_seconds < found.database_seconds
    assert found.embedding_seconds > 0
    parts = found.embedding_seconds + found.database_seconds
    assert parts < found.prepare_seconds < found.first_event_seconds
    assert found.first_event_seconds <= last_turn(user).seconds
    assert found.save_seconds > 0
    assert found.limits_seconds is None


def test_check_of_limits_is_timed(running, configure, client, user):
    configure(REMEMBERING + LIMITED)
    ask(client, user, "Hello")
    found = diagnostics(user)
    assert 0 < found.limits_seconds < found.database_seconds


def test_turn_without_memory_recalls_nothing(client, user):
    know(user, "The user lives in Lisbon")
    ask(client, user, "Lisbon?", agent="amnesiac")
    found = diagnostics(user)
    assert (found.recall, found.corpus, found.embedder) == ("none", "", "")
    assert (found.facts, found.embedding_seconds) == (0, None)


def test_search_without_a_vector_is_by_words(running, configure, client, fake, user):
    embedder = str(fake.embed_with())
    configure(REMEMBERING.replace("{provider: hash}", embedder))
    know(user, "The user lives in Lisbon")
    for _ in range(3):
        fake.embed(status=400)
    ask(client, user, "Lisbon?")
    found = diagnostics(user)
    assert (found.recall, found.embedder) == ("words", "")


@pytest.mark.parametrize(
    ("text", "is_embedded", "path"),
    [
        ("", False, "none"),
        ("Lisbon", False, "words"),
        ("Lisbon", True, "both"),
        ("?!", True, "vectors"),
    ],
)
def test_path_of_a_query(text, is_embedded, path):
    embedded = Embedded("hash:4", np.ones(4, np.float32)) if is_embedded else None
    assert parse_query(Query(text, embedded)).path == path


def test_user_sees_the_diagnostics_of_their_turn(client, http, user):
    ask(client, user, "Hello")
    turn = last_turn(user)
    shown = MemoryClient(http, user).get(f"/v1/turns/{turn.pk}")["diagnostics"]
    found = turn.diagnostics
    assert shown["recall"] == "both"
    assert shown["database_seconds"] == pytest.approx(found.database_seconds, abs=1e-6)
    assert shown["limits_seconds"] is None


def test_turn_of_an_earlier_version_has_none(client, http, user):
    ask(client, user, "Hello")
    turn = last_turn(user)
    Turn.objects.filter(pk=turn.pk).update(diagnostics_json="")
    assert MemoryClient(http, user).get(f"/v1/turns/{turn.pk}")["diagnostics"] is None


def test_extraction_of_a_turn_is_found(client, user):
    ask(client, user, "I live in Lisbon")
    turn = last_turn(user)
    task = Task.objects.extractions().get(user_id=turn.user_id)
    end = turn.started_at
    found = extraction_tasks.find_extraction(turn.user_id, turn.pk, end, end)
    assert (found.state, found.found) == ("queued", 0)
    result = extraction_tasks.format_result(found=5, saved=3, held=1)
    Task.objects.filter(pk=task.pk).update(state="done", result=result)
    found = extraction_tasks.find_extraction(turn.user_id, turn.pk, end, end)
    assert found == ("done", 5, 2, 1, 2, "")
    other = identity.derive_user_id(f"{user}-other")
    assert extraction_tasks.find_extraction(other, turn.pk, end, end) is None


def test_texts_name_what_took_place():
    found = Diagnostics(
        recall="both",
        corpus="large",
        embedder="hash:1024",
        history=1,
        facts=2,
        summaries=1,
    )
    assert diagnostics_text.recall(found) == (
        "by words and vectors (hash:1024), index in memory"
    )
    assert diagnostics_text.prompt(found) == "1 message, 2 facts, 1 summary"
    assert diagnostics_text.phases(found) == ""
    timed = Diagnostics(database_seconds=0.003, read_seconds=0.002)
    assert diagnostics_text.phases(timed) == (
        "database 3.0 ms (wait 1.0 ms, read 2.0 ms)"
    )
    assert diagnostics_text.recall(Diagnostics()) == "none"
    assert diagnostics_text.prompt(Diagnostics()) == "nothing stored"
