"""The sample data of `coulisse demo`, as other apps read it."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.db import connection, transaction

from agents.config import AGENTS
from agents.state import reducers
from core.ids import TurnId
from demo import dialogues, sample_users
from demo.generator import DemoGenerator, DemoSize
from demo.management.commands import demo
from memory.models import AgentState, Fact, FactChange, Passage, Session, Thread
from safety.config import SAFETY
from safety.detection import rules
from safety.models import Incident
from smoke.models import SmokeMessage, SmokeRun
from tasks.models import Task
from telemetry.models import Expense, ModelCall, ToolCall, Turn
from telemetry.statistics import cost_totals
from telemetry.storage import turn_store

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("month")]

NOW = datetime(2100, 3, 17, 15, 30, tzinfo=UTC)
SIZE = DemoSize(users=20, turns=700, days=12)


@pytest.fixture(scope="module")
def month(database: None, django_db_blocker) -> Iterator[None]:
    """One month for all tests; rolled back afterwards."""
    with django_db_blocker.unblock(), transaction.atomic():
        DemoGenerator(demo.load_demo_config(), SIZE, NOW).fill()
        connection.check_constraints()
        yield
        transaction.set_rollback(True)


def ids() -> list[uuid.UUID]:
    return [user.user_id for user in sample_users.list_users(SIZE.users)]


def test_stored_turns_load_as_records():
    records = [
        turn_store.load_record(TurnId(turn_id))
        for turn_id in Turn.objects.filter(user_id__in=ids()).values_list(
            "id", flat=True
        )
    ]
    deep = ToolCall.objects.filter(turn__user_id__in=ids(), depth=1)
    assert deep.exists(), "subagents call tools, too"
    for record in records:
        assert record is not None
        assert record.started_at <= NOW
        assert record.turn_id.version in (5, 7)
        ended = record.started_at + timedelta(seconds=record.seconds)
        for call in record.calls:
            assert record.started_at <= call.started_at <= ended


def test_conversations_are_complete():
    for thread in Thread.objects.filter(user_id__in=ids()):
        messages = list(thread.messages.order_by("position"))
        assert [each.position for each in messages] == [*range(thread.length)]
        times = [each.created_at for each in messages]
        assert times == sorted(times)
        assert messages[-1].role == "assistant"
        for before, after in pairwise(messages):
            assert (before.role == "tool") <= (after.role in ("tool", "assistant"))


def test_facts_have_a_history():
    facts = Fact.objects.filter(user_id__in=ids())
    for fact in facts:
        actions = fact.changes.order_by("at", "id").values_list("action", flat=True)
        assert actions[0] in ("created", "flagged")
        if fact.status == "superseded":
            assert "superseded" in actions
            assert fact.superseded_by is not None
    active = facts.filter(status="active")
    assert Passage.objects.filter(fact__in=active).count() == active.count() > 0
    assert FactChange.objects.filter(user_id__in=ids(), action="superseded").exists()


def test_sessions_have_episodes_and_scores():
    sessions = Session.objects.filter(user_id__in=ids())
    for session in sessions.select_related("episode", "thread"):
        assert session.messages.count() == (
            session.end_position - session.first_position
        )
        assert session.started_at <= session.ended_at < session.closed_at <= NOW
        if session.episode is not None:
            assert session.episode.category == "episode"
            assert session.episode.said_at == session.ended_at
    by_thread = sessions.order_by("thread", "first_position")
    for before, after in pairwise(by_thread):
        if before.thread_id == after.thread_id:
            assert before.end_position <= after.first_position
            pause = after.started_at - before.ended_at
            assert pause >= timedelta(minutes=20)
    assert sessions.exclude(episode=None).exists()
    assert sessions.exclude(score=None).filter(reason="request").exists()


def test_states_fit_the_fields_of_their_agents():
    agents = demo.load_demo_config().get(AGENTS)
    states = AgentState.objects.filter(thread__user_id__in=ids())
    for state in states:
        fields = agents[state.agent].state
        assert state.values.keys() <= fields.keys()
        for name, value in state.values.items():
            assert reducers.find_problem(fields[name], value) == ""
    assert {state.agent for state in states} == {"rota", "school-desk"}


def test_incidents_belong_to_checks_and_turns():
    checks = {check.name: check for check in demo.load_demo_config().get(SAFETY).checks}
    incidents = Incident.objects.filter(user_id__in=ids())
    for incident in incidents:
        check = checks[incident.check_name]
        assert incident.level in ("", *check.levels)
        turn = Turn.objects.get(id=incident.turn_id)
        assert check.agents == "all" or turn.agent in check.agents
    assert {each.check_name for each in incidents} == {*checks}
    calls = ToolCall.objects.filter(turn__user_id__in=ids(), kind="safety")
    assert calls.filter(result="none").exists()
    assert not calls.filter(result=None, error=None).exists()


def test_checks_find_the_scripted_incidents():
    checks = {check.name: check for check in demo.load_demo_config().get(SAFETY).checks}
    for data in dialogues.load_dialogues().dialogues:
        for exchange in data["exchanges"]:
            if (incident := exchange.get("incident")) is None:
                continue
            check = checks[incident["check"]]
            assert incident["level"] in check.levels
            if check.by.regex is not None:
                matches = rules.find_matches(check, exchange["user"])
                assert [match.level for match in matches] == [incident["level"]]


def test_some_facts_are_held_for_review():
    facts = Fact.objects.filter(user_id__in=ids())
    held = facts.filter(status="pending_review")
    assert {"conflict", "injection"} <= {fact.held_for for fact in held}
    for fact in held.filter(held_for="conflict"):
        assert Fact.objects.get(id=fact.replaces_id).is_pinned
    assert facts.filter(category="rule", status="active").exists()


def test_costs_are_priced_like_real_turns():
    totals = {
        each.key: each
        for each in cost_totals.totals_by("agent", NOW - timedelta(days=13))
        if each.turns
    }
    priced = totals["front-desk-warm"]
    assert priced.micro_usd > 0
    assert not priced.unpriced
    # A model without a price.
    assert totals["school-desk"].unpriced
    calls = ModelCall.objects.filter(turn__user_id__in=ids())
    assert not calls.filter(error=None, input_tokens=None).exists()
    assert Expense.objects.filter(spent_at__gt=NOW - timedelta(days=13)).exists()


def test_queued_tasks_are_not_due():
    open_tasks = Task.objects.filter(user_id__in=ids(), state__in=["queued", "running"])
    assert {task.state for task in open_tasks} == {"queued", "running"}
    assert all(task.due_at > NOW + timedelta(days=29) for task in open_tasks)
    states = Task.objects.filter(user_id__in=ids()).values_list("state", flat=True)
    assert {"done", "errored"} <= set(states)


def test_smoke_runs_have_their_lines():
    runs = SmokeRun.objects.filter(created_at__gt=NOW - timedelta(days=13))
    assert runs.exists()
    for each in runs:
        lines = list(each.messages.order_by("position"))
        assert lines[0].speaker == SmokeMessage.Speaker.PERSONA
        assert each.turns == sum(line.speaker == "assistant" for line in lines)


def test_failed_turns_are_included():
    failed = Turn.objects.filter(origin="chat", outcome="error", started_at__lt=NOW)
    bad = NOW - timedelta(days=9)
    assert failed.filter(started_at__range=(bad, bad + timedelta(hours=2))).exists()
    assert failed.exclude(error="").exists()
