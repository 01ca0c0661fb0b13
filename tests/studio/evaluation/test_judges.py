"""Judges in the studio: scores, failures, and the scoring of past replies."""

import uuid
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.models import AuditEntry
from admin_base.serializers import page_schema
from config import live
from core.events import Usage
from core.ids import TurnId, UserId, new_turn_id
from judges.config import JUDGES
from judges.models import Feedback, Score
from judges.runs import judge_queue
from judges.schemas import BackfillEstimate, StudioScore
from smoke.models import SmokeRun
from studio.evaluation import judge_details
from tasks.models import OPEN, Task
from telemetry.config import TELEMETRY
from telemetry.storage import costs
from telemetry.storage.costs import CallExpense
from tests.judges.test_judge_command import PastReplies
from tests.studio.openapi.schema_assertions import assert_fits

pytestmark = pytest.mark.database

PAGE = {"Accept": "text/html"}
NOW = datetime.now(UTC)
PERSONA = {"provider": "openai", "model": "p", "preamble": "You ask."}


@pytest.fixture
def past_replies(server, configure):
    """A judge and an agent with unique names."""
    return PastReplies(configure)


def add_score(
    past_replies,
    value,
    *,
    criterion="accuracy",
    days=0.0,
    agent=None,
    user_id=None,
    **more,
):
    return Score.objects.create(
        **{"turn_id": new_turn_id(), "origin": "chat", **more},
        user_id=user_id or uuid.uuid4(),
        judge=past_replies.judge,
        criterion=criterion,
        value=value,
        reasoning=f"Because it is {value}.",
        agent=agent or past_replies.agent,
        judged_at=NOW - timedelta(days=days),
    )


def add_task(past_replies, state="done", result=None, error=""):
    """Add a judge task with this state and result."""
    (task,) = Task.objects.enqueue(
        [
            judge_queue.build_task(
                past_replies.judge,
                past_replies.agent,
                turn_id=TurnId(new_turn_id()),
                user_id=UserId(uuid.uuid4()),
            )
        ]
    )
    result_json = orjson.dumps({"judge": past_replies.judge, **(result or {})}).decode()
    ended = None if state in OPEN else NOW
    Task.objects.filter(pk=task.pk).update(
        state=state, result=result_json, error=error, finished_at=ended
    )
    return task


def get_details(script, past_replies):
    response = script.get(f"/admin/judges/{past_replies.judge}")
    assert response.status_code == 200, response.text
    return response.json()["details"]


def test_means_cover_a_day_a_week_and_a_month(script, past_replies):
    add_score(past_replies, 10)
    add_score(past_replies, 4, days=3)
    add_score(past_replies, 1, days=20, agent="another")
    add_score(past_replies, 0, days=40)
    add_score(past_replies, 6, criterion="tone")
    data = get_details(script, past_replies)
    accuracy, tone = data["means"]
    assert accuracy["windows"] == {
        "24h": {"mean": 10.0, "count": 1},
        "7d": {"mean": 7.0, "count": 2},
        "30d": {"mean": 5.0, "count": 3},
    }
    assert tone["windows"]["24h"] == {"mean": 6.0, "count": 1}
    by = {(each["agent"], each["criterion"]): each for each in data["by_agent"]}
    assert by["another", "accuracy"]["windows"]["7d"] == {"mean": None, "count": 0}
    assert by[past_replies.agent, "accuracy"]["windows"]["30d"] == {
        "mean": 7.0,
        "count": 2,
    }
    assert [(day["criterion"], day["mean"]) for day in data["days"]] == [
        ("accuracy", 1.0),
        ("accuracy", 4.0),
        ("accuracy", 10.0),
        ("tone", 6.0),
    ]
    listed = script.get("/admin/judges").json()["data"]
    (listed_judge,) = [each for each in listed if each["name"] == past_replies.judge]
    assert listed_judge["overview"] == {
        "count": 3,
        "mean": pytest.approx(20 / 3),
        "failed": 0,
    }


def test_failed_and_skipped_judgements_are_shown(script, past_replies):
    for _ in range(2):
        add_task(past_replies)
    for _ in range(3):
        add_task(past_replies, result={"skipped": "the turn is not stored"})
    add_task(past_replies, "errored", error="it answered in prose")
    add_task(past_replies, "cancelled")
    add_task(past_replies, "queued")
    data = get_details(script, past_replies)
    assert data["counts"] == {
        "queued": 1,
        "running": 0,
        "done": 2,
        "failed": 1,
        "cancelled": 1,
        "skipped": {"the turn is not stored": 3},
        "selected": 8,
    }
    assert [each["error"] for each in data["failures"]] == ["it answered in prose"]
    page = script.get(f"/admin/judges/{past_replies.judge}", headers=PAGE).text
    assert "it answered in prose" in page
    assert "the turn is not stored" in page


def test_failed_judgement_is_retried(script, browser, past_replies):
    task, other = add_task(past_replies, "errored"), add_task(past_replies, "errored")
    page = browser.submit(
        f"/admin/tasks/{task.pk}/retry",
        {},
        form_page=f"/admin/judges/{past_replies.judge}",
    )
    assert page.status_code == 200
    assert Task.objects.get(pk=task.pk).state == "queued"
    response = script.post(f"/admin/judges/{past_replies.judge}/retry")
    assert (response.status_code, response.json()["retried"]) == (202, 1)
    assert Task.objects.get(pk=other.pk).state == "queued"
    entry = AuditEntry.objects.filter(action="judge.retry").latest("at")
    assert (entry.target, entry.details) == (past_replies.judge, {"tasks": 1})
    assert script.post("/admin/judges/nobody/retry").status_code == 404
    assert script.get("/admin/judges/nobody/scores").status_code == 404


def test_judge_cost_is_shown(script, past_replies):
    settings = live.current().get(TELEMETRY)
    for cost in (1_500, None):
        expense = CallExpense(
            past_replies.judge, past_replies.agent, "openai", "j", 1, Usage(10, 5), cost
        )
        costs.record_expense(expense, settings)
    spent = get_details(script, past_replies)["costs"]
    assert spent["24h"] == {"judgements": 2, "micro_usd": 1_500, "unpriced": 1}
    assert spent["30d"] == spent["24h"]


def test_user_feedback_is_shown(script, past_replies):
    for agent, comment in ((past_replies.agent, "Kind of dry."), ("stranger", "No.")):
        Feedback.objects.create(
            turn_id=uuid.uuid4(),
            user_id=uuid.uuid4(),
            thumb="down",
            agent=agent,
            comment=comment,
            created_at=NOW,
            updated_at=NOW,
        )
    data = get_details(script, past_replies)
    assert [(each["agent"], each["down"]) for each in data["feedback"]] == [
        (past_replies.agent, 1)
    ]
    assert [each["comment"] for each in data["comments"]] == ["Kind of dry."]


def test_scores_are_listed_with_their_reasons(script, browser, past_replies):
    # Three of one instant, two of another: pages end among them.
    given = [add_score(past_replies, value, days=value // 3) for value in range(5)]
    run = SmokeRun.objects.create(
        batch=uuid.uuid4(),
        repetition=1,
        test="t",
        target=past_replies.agent,
        user_id=uuid.uuid4(),
        origin="studio",
        settings={"name": "t", "target": past_replies.agent, "persona": PERSONA},
        created_at=NOW,
    )
    add_score(past_replies, 9, user_id=run.user_id, origin="smoke", days=9)
    address, found, after = f"/admin/judges/{past_replies.judge}/scores", [], ""
    for _ in range(9):
        page = script.get(address, params={"after": after, "limit": 2}).json()
        assert_fits(page_schema(StudioScore), page)
        found += page["data"]
        if not page["has_more"]:
            break
        after = page["last_id"]
    assert [each["value"] for each in found] == [2, 1, 0, 4, 3, 9]
    assert found[0]["turn_id"] == str(given[2].turn_id)
    assert (found[0]["run_id"], found[-1]["run_id"]) == (None, str(run.pk))
    low = script.get(address, params={"max": 1, "criterion": "accuracy"}).json()
    assert [each["value"] for each in low["data"]] == [1, 0]
    page = browser.http.get(address, follow_redirects=True)
    assert "Because it is 1." in page.text
    assert script.get(address, params={"max": 11}).status_code == 400


def test_past_replies_are_estimated_and_scored(script, browser, past_replies):
    past_replies.replied(3)
    address = f"/admin/judges/{past_replies.judge}/past-replies"
    data = script.get(address, params={"limit": 2, "since": "300d"}).json()
    assert (data["pending"], data["judged"], data["queued"]) == (2, 0, 0)
    assert_fits(BackfillEstimate, data)
    assert data["tokens"] > 0
    assert data["cost_usd"] > 0
    assert not Task.objects.filter(user_id=past_replies.user_id, kind="judge").exists()
    assert "Estimate" in browser.get(address).text
    page_url = f"{address}?since=300d&limit=2"
    page = browser.submit(address, {"since": "300d", "limit": "2"}, form_page=page_url)
    assert "2 replies queued for scoring" in page.text
    assert Task.objects.filter(user_id=past_replies.user_id, kind="judge").count() == 2
    response = script.post(address, json={"since": "300d"})
    assert (response.status_code, response.json()["queued"]) == (202, 1)
    assert script.get(address, params={"since": "300d"}).json()["pending"] == 0


def test_invalid_estimate_is_refused(script, past_replies):
    address = f"/admin/judges/{past_replies.judge}/past-replies"
    for query in ({"since": "yore"}, {"sample": 2}, {"limit": 0}, {"sort": "x"}):
        assert script.get(address, params=query).status_code == 400
    response = script.post("/admin/judges/never/past-replies", json={"agent": "x"})
    assert response.json()["pending"] == 0
    page = script.get("/admin/judges/nobody/past-replies", headers=PAGE)
    assert (page.status_code, "there is no judge" in page.text) == (404, True)


def test_query_count_is_independent_of_scores(past_replies):
    counts = []
    for number in (1, 5):
        for value in range(number):
            add_score(
                past_replies, value % 10, criterion=f"c{value}", agent=f"a{value}"
            )
            add_task(past_replies, "errored")
        judge = live.current().get(JUDGES)[past_replies.judge]
        with CaptureQueriesContext(connection) as queries:
            judge_details.load_details(past_replies.judge, judge)
            judge_details.load_overview()
        counts.append(len(queries))
    assert counts == [counts[0]] * 2
