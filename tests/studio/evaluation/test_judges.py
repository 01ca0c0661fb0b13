"""Judges in the studio: scores, failures, and the scoring of past replies."""

import uuid
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.models import AuditEntry
from config import live
from core.events import Usage
from core.ids import TurnId, UserId, new_turn_id
from judges.config import JUDGES
from judges.models import Feedback, Score
from judges.runs import judge_queue
from smoke.models import SmokeRun
from studio.evaluation import judge_details, judge_views
from tasks.models import Task
from tasks.queue import lifecycle
from telemetry.config import TELEMETRY
from telemetry.storage import costs
from telemetry.storage.costs import JudgeExpense
from tests.judges.test_judge_command import PastReplies
from tests.studio.openapi.schema_assertions import assert_fits

pytestmark = pytest.mark.database

PAGE = {"Accept": "text/html"}
NOW = datetime.now(UTC)
PERSONA = {"provider": "openai", "model": "p", "preamble": "You ask."}


@pytest.fixture
def past(server, configure):
    """A judge and an agent with unique names."""
    return PastReplies(configure)


def add_score(
    past, value, *, criterion="accuracy", days=0.0, agent=None, user_id=None, **more
):
    return Score.objects.create(
        **{"turn_id": new_turn_id(), "origin": "chat", **more},
        user_id=user_id or uuid.uuid4(),
        judge=past.judge,
        criterion=criterion,
        value=value,
        reasoning=f"Because it is {value}.",
        agent=agent or past.agent,
        judged_at=NOW - timedelta(days=days),
    )


def add_task(past, state="done", result=None, error=""):
    """Add a judge task with this state and result."""
    (task,) = lifecycle.enqueue(
        [
            judge_queue.build_task(
                past.judge,
                past.agent,
                turn_id=TurnId(new_turn_id()),
                user_id=UserId(uuid.uuid4()),
            )
        ]
    )
    result_json = orjson.dumps({"judge": past.judge, **(result or {})}).decode()
    ended = None if state in lifecycle.OPEN else NOW
    Task.objects.filter(pk=task.pk).update(
        state=state, result=result_json, error=error, finished_at=ended
    )
    return task


def get_details(script, past):
    response = script.get(f"/admin/judges/{past.judge}")
    assert response.status_code == 200, response.text
    return response.json()["details"]


def test_means_cover_a_day_a_week_and_a_month(script, past):
    add_score(past, 10)
    add_score(past, 4, days=3)
    add_score(past, 1, days=20, agent="another")
    add_score(past, 0, days=40)
    add_score(past, 6, criterion="tone")
    data = get_details(script, past)
    accuracy, tone = data["means"]
    assert accuracy["windows"] == {
        "24h": {"mean": 10.0, "count": 1},
        "7d": {"mean": 7.0, "count": 2},
        "30d": {"mean": 5.0, "count": 3},
    }
    assert tone["windows"]["24h"] == {"mean": 6.0, "count": 1}
    by = {(each["agent"], each["criterion"]): each for each in data["by_agent"]}
    assert by["another", "accuracy"]["windows"]["7d"] == {"mean": None, "count": 0}
    assert by[past.agent, "accuracy"]["windows"]["30d"] == {"mean": 7.0, "count": 2}
    assert [(day["criterion"], day["mean"]) for day in data["days"]] == [
        ("accuracy", 1.0),
        ("accuracy", 4.0),
        ("accuracy", 10.0),
        ("tone", 6.0),
    ]
    listed = script.get("/admin/judges").json()["data"]
    (mine,) = [each for each in listed if each["name"] == past.judge]
    assert mine["overview"] == {"count": 3, "mean": pytest.approx(20 / 3), "failed": 0}


def test_failed_and_skipped_judgements_are_shown(script, past):
    for _ in range(2):
        add_task(past)
    for _ in range(3):
        add_task(past, result={"skipped": "the turn is not stored"})
    add_task(past, "errored", error="it answered in prose")
    add_task(past, "cancelled")
    add_task(past, "queued")
    data = get_details(script, past)
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
    page = script.get(f"/admin/judges/{past.judge}", headers=PAGE).text
    assert "it answered in prose" in page
    assert "the turn is not stored" in page


def test_failed_judgement_is_retried(script, browser, past):
    task, other = add_task(past, "errored"), add_task(past, "errored")
    page = browser.submit(
        f"/admin/tasks/{task.pk}/retry", {}, of=f"/admin/judges/{past.judge}"
    )
    assert page.status_code == 200
    assert Task.objects.get(pk=task.pk).state == "queued"
    response = script.post(f"/admin/judges/{past.judge}/retry")
    assert (response.status_code, response.json()["retried"]) == (202, 1)
    assert Task.objects.get(pk=other.pk).state == "queued"
    deed = AuditEntry.objects.filter(action="judge.retry").latest("at")
    assert (deed.target, deed.details) == (past.judge, {"tasks": 1})
    assert script.post("/admin/judges/nobody/retry").status_code == 404
    assert script.get("/admin/judges/nobody/scores").status_code == 404


def test_judge_cost_is_shown(script, past):
    settings = live.current().get(TELEMETRY)
    for cost in (1_500, None):
        paid = JudgeExpense(
            past.judge, past.agent, "openai", "j", 1, Usage(10, 5), cost
        )
        costs.record_expense(paid, settings)
    spent = get_details(script, past)["costs"]
    assert spent["24h"] == {"judgements": 2, "micro_usd": 1_500, "unpriced": 1}
    assert spent["30d"] == spent["24h"]


def test_user_feedback_is_shown(script, past):
    for agent, comment in ((past.agent, "Kind of dry."), ("stranger", "No.")):
        Feedback.objects.create(
            turn_id=uuid.uuid4(),
            user_id=uuid.uuid4(),
            thumb="down",
            agent=agent,
            comment=comment,
            created_at=NOW,
            updated_at=NOW,
        )
    data = get_details(script, past)
    assert [(each["agent"], each["down"]) for each in data["feedback"]] == [
        (past.agent, 1)
    ]
    assert [each["comment"] for each in data["comments"]] == ["Kind of dry."]


def test_scores_are_listed_with_their_reasons(script, browser, past, monkeypatch):
    monkeypatch.setattr("studio.evaluation.judge_views.PAGE_SIZE", 2)
    # Three of one instant, two of another: pages end among them.
    given = [add_score(past, value, days=value // 3) for value in range(5)]
    run = SmokeRun.objects.create(
        batch=uuid.uuid4(),
        repetition=1,
        test="t",
        target=past.agent,
        user_id=uuid.uuid4(),
        origin="studio",
        settings={"name": "t", "target": past.agent, "persona": PERSONA},
        created_at=NOW,
    )
    add_score(past, 9, user_id=run.user_id, origin="smoke", days=9)
    address, found, after = f"/admin/judges/{past.judge}/scores", [], ""
    for _ in range(9):
        page = script.get(address, params={"after": after}).json()
        assert_fits(judge_views.JudgeScoreList, page)
        found += page["data"]
        if not page["has_more"]:
            break
        after = page["last_id"]
    assert [each["value"] for each in found] == [2, 1, 0, 4, 3, 9]
    assert found[0]["turn_id"] == str(given[2].turn_id)
    assert (found[0]["run_id"], found[-1]["run_id"]) == (None, str(run.pk))
    low = script.get(address, params={"max": 1, "criterion": "accuracy"}).json()
    assert [each["value"] for each in low["data"]] == [1, 0]
    assert "Because it is 1." in browser.get(address).text
    assert script.get(address, params={"max": 11}).status_code == 400


def test_past_replies_are_estimated_and_scored(script, browser, past):
    past.replied(3)
    address = f"/admin/judges/{past.judge}/past-replies"
    data = script.get(address, params={"limit": 2, "since": "300d"}).json()
    assert (data["pending"], data["judged"], data["queued"]) == (2, 0, 0)
    assert_fits(judge_views.BackfillEstimate, data)
    assert data["tokens"] > 0
    assert data["cost_usd"] > 0
    assert not Task.objects.filter(user_id=past.user_id, kind="judge").exists()
    assert "Estimate" in browser.get(address).text
    page_url = f"{address}?since=300d&limit=2"
    page = browser.submit(address, {"since": "300d", "limit": "2"}, of=page_url)
    assert "2 replies queued for scoring" in page.text
    assert Task.objects.filter(user_id=past.user_id, kind="judge").count() == 2
    response = script.post(address, json={"since": "300d"})
    assert (response.status_code, response.json()["queued"]) == (202, 1)
    assert script.get(address, params={"since": "300d"}).json()["pending"] == 0


def test_invalid_estimate_is_refused(script, past):
    address = f"/admin/judges/{past.judge}/past-replies"
    for query in ({"since": "yore"}, {"sample": 2}, {"limit": 0}, {"sort": "x"}):
        assert script.get(address, params=query).status_code == 400
    response = script.post("/admin/judges/never/past-replies", json={"agent": "x"})
    assert response.json()["pending"] == 0
    page = script.get("/admin/judges/nobody/past-replies", headers=PAGE)
    assert (page.status_code, "there is no judge" in page.text) == (404, True)


def test_query_count_is_independent_of_scores(past):
    counts = []
    for number in (1, 15):
        for value in range(number):
            add_score(past, value % 10, criterion=f"c{value}", agent=f"a{value}")
            add_task(past, "errored")
        judge = live.current().get(JUDGES)[past.judge]
        with CaptureQueriesContext(connection) as queries:
            judge_details.load_details(past.judge, judge)
            judge_details.load_overview()
        counts.append(len(queries))
    assert counts == [counts[0]] * 2
