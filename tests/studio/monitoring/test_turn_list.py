"""The filters of the list of turns, and the indexes that they use."""

import uuid

import pytest
from django.contrib import admin
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from access.authentication import accounts
from access.tokens import api_tokens
from core.ids import UserId
from judges.runs import judge_queue
from tasks.models import Task
from telemetry.models import Turn, turns
from tests.access.actors import ADA
from tests.gateway.calls import error
from tests.gateway.memory_client import ok
from tests.judges.test_judge_command import PastReplies
from tests.telemetry.sample_turns import NOON, SECOND, model_call, store_turn

pytestmark = pytest.mark.database


@pytest.fixture
def sample(server):
    """Two turns of a user; only the first has the values of all filters."""
    name = f"list-{uuid.uuid4()}"
    user_id = UserId(uuid.uuid4())
    token, _ = api_tokens.create_token(name, name, by=ADA)
    first = store_turn(
        model_call(provider=name),
        user_id=user_id,
        agent=name,
        experiment=name,
        outcome="cancelled",
        origin="task",
        token_id=token.pk,
    )
    other = store_turn(user_id=user_id, started_at=NOON + SECOND)
    return name, str(user_id), str(first.turn_id), str(other.turn_id)


def found(script, **query: str) -> list[str]:
    page = ok(script.get("/admin/turns", params=query))
    return [turn["id"] for turn in page["data"]]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("agent", "{name}"),
        ("model", "{name}/gpt-test"),
        ("token", "{name}"),
        ("experiment", "{name}"),
        ("outcome", "cancelled"),
        ("origin", "task"),
        ("from", "2026-05-06T12:00:00Z"),
        ("q", "{id}"),
    ],
)
def test_list_is_filtered(script, sample, name, value):
    agent, user, first, other = sample
    query = {"user": user, name: value.format(name=agent, id=first[:30])}
    if name == "from":
        assert found(script, **query, to="2026-05-06T12:00:01Z") == [first]
        return
    assert found(script, **query) == [first]
    assert found(script, user=user) == [other, first]


def test_frequent_model_is_found_by_its_turns(script, sample, monkeypatch):
    monkeypatch.setattr(turns, "MAX_CALLS_OF_RARE_MODEL", 0)
    name, _, first, _ = sample
    assert found(script, model=f"{name}/gpt-test") == [first]
    assert found(script, model=f"{name}/gpt-other") == []


def test_search_finds_the_turns_of_a_user(script, sample):
    _, user, first, other = sample
    assert found(script, q=user) == [other, first]
    assert found(script, q=f"chatcmpl-{uuid.UUID(first).hex}") == [first]


@pytest.mark.parametrize(
    ("name", "value"), [("model", "gpt"), ("origin", "x"), ("agnt", "x")]
)
def test_invalid_filter_is_refused(script, name, value):
    refused = error(script.get("/admin/turns", params={name: value}), 400)
    assert refused["param"] == name


def test_list_is_csv(script, sample):
    page = script.get("/admin/turns", params={"user": sample[1], "format": "csv"})
    head, *lines = page.text.splitlines()
    assert head.startswith("id,object,completion_id,user_id")
    assert len(lines) == 2


def test_turns_of_a_user_have_its_tabs_and_no_filter(browser, script, sample):
    _, user, first, _ = sample
    page = browser.http.get(f"/admin/users/{user}/turns", follow_redirects=True)
    assert f'href="/admin/turns/{first}"' in page.text
    assert f'href="/admin/users/{user}/facts"' in page.text
    # The address is the filter, also if the query names another user.
    assert 'name="user"' not in page.text
    other = {"user": "someone-else", "limit": 50}
    listed = ok(script.get(f"/admin/users/{user}/turns", params=other))["data"]
    assert {turn["user_id"] for turn in listed} == {str(user)}


def test_turns_are_judged_again(script, server, configure):
    replies = PastReplies(configure)
    sent = store_turn(agent=replies.agent)
    alone = store_turn(agent="assistant")
    keys = [judge_queue.task_key(replies.judge, sent.turn_id)]
    ids = [str(sent.turn_id), str(alone.turn_id)]
    path = "/admin/turns?action=judge"
    judged, refused = ok(script.post(path, json={"ids": ids}))["data"]
    assert judged["is_changed"]
    assert "No judge scores the agent" in refused["error"]
    tasks = Task.objects.filter(key__in=keys)
    assert [task.state for task in tasks] == ["queued"]
    again, _ = ok(script.post(path, json={"ids": ids}))["data"]
    assert not again["is_changed"]
    tasks.update(state="done", finished_at=NOON)
    ok(script.post(f"/admin/turns/{sent.turn_id}/judge"))
    assert [task.state for task in tasks.all()] == ["queued"]
    tasks.delete()


PAGE_END = '"telemetry_turn"."id" DESC LIMIT'


def remove_statistics(cursor) -> None:
    """Remove what other tests left for the planner, on which its choice depends."""
    cursor.execute("ANALYZE sqlite_schema")  # Or there may be no table of them.
    cursor.execute("DELETE FROM sqlite_stat1")
    cursor.execute("ANALYZE sqlite_schema")  # Reload: none.


def plan_of(**query: str) -> str:
    """Return SQLite's query plan of the page that a query selects."""
    request = RequestFactory().get("/admin/turns", query)
    request.user = accounts.get_or_create_user("olga")
    with CaptureQueriesContext(connection) as queries:
        admin.site._registry[Turn].get_changelist_instance(request)
    # Its filters may read turns, too.
    (page,) = (each["sql"] for each in queries if PAGE_END in each["sql"])
    with connection.cursor() as cursor:
        remove_statistics(cursor)
        cursor.execute("EXPLAIN QUERY PLAN " + page)
        return "\n".join(row[-1] for row in cursor.fetchall())


AFTER = f"{NOON.isoformat()}~{uuid.UUID(int=1)}"


@pytest.mark.skipif(connection.vendor != "sqlite", reason="the plan is SQLite's")
@pytest.mark.parametrize(
    ("query", "index"),
    [
        ({}, "telemetry_turn_at"),
        ({"after": AFTER}, "telemetry_turn_at"),
        ({"agent": "a"}, "telemetry_turn_of_agent"),
        ({"agent": "a", "after": AFTER}, "telemetry_turn_of_agent"),
        ({"experiment": "a"}, "telemetry_turn_variants"),
        ({"origin": "shadow"}, "telemetry_turn_origins"),
        ({"outcome": "cancelled"}, "telemetry_turn_cancelled"),
        ({"outcome": "error"}, "telemetry_turn_failed"),
        ({"token": "sample"}, "telemetry_turn_of_token"),
        ({"user": "a"}, "telemetry_turn_of_user"),
        ({"user": "a", "after": AFTER}, "telemetry_turn_of_user"),
    ],
    ids=str,
)
def test_page_uses_an_index_without_sorting(server, query, index):
    if "token" in query:
        api_tokens.create_token("sample", "sample", by=ADA)
    plan = plan_of(**query)
    assert f"INDEX {index}" in plan, plan
    assert "TEMP B-TREE" not in plan, plan
