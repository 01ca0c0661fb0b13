"""The home page: the last 24 hours, the agents, and the alerts."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.template import loader
from django.test.utils import CaptureQueriesContext

from access.models import AuditEntry
from admin_base.templatetags import studio as studio_filters
from config import live
from config.sections import Problem, RejectedOverride
from core.events import Usage
from memory.models import Fact
from memory.models.fact_choices import HeldFor
from studio.monitoring import alerts, fleet_alerts, home
from tasks.models import Task
from telemetry.models import Turn
from telemetry.statistics import recent_activity
from tests.conftest import CONFIG
from tests.gateway.memory_client import ok
from tests.telemetry.sample_turns import store_turn

pytestmark = pytest.mark.database

NOW = datetime(2100, 6, 1, 12, tzinfo=UTC)
SINCE = NOW - timedelta(days=1)
DAY = timedelta(days=1)


def page_context():
    summary = recent_activity.summarize_since(SINCE, NOW)
    return home.page_context(summary, User(is_superuser=True))


@pytest.fixture(autouse=True)
def _no_alerts_of_the_machine(monkeypatch):
    """Leave out what tasks of other tests and the disk would raise."""
    monkeypatch.setattr(fleet_alerts, "OLD_SECONDS", float("inf"))
    monkeypatch.setattr(fleet_alerts, "LOW_BYTES", 0)


@pytest.fixture
def rollback(database: None) -> Iterator[None]:
    """Roll back the rows of a test."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def turn(**fields):
    given = {"started_at": NOW - timedelta(minutes=5), "usage": Usage(100, 10)}
    return store_turn(**{**given, **fields})


def day():
    return home.load_day(recent_activity.summarize_since(SINCE, NOW)).model_dump()


def alert_messages():
    return [
        each.message
        for each in alerts.list_alerts(
            recent_activity.summarize_since(SINCE, NOW), SINCE
        )
    ]


# The formats.


def test_home_is_json_for_scripts_and_html_for_browsers(script, browser):
    name = f"home-{uuid.uuid4().hex[:8]}"
    now = datetime.now(UTC)
    failed = store_turn(
        agent=name, started_at=now, outcome="error", error=f"{name} fell"
    )
    data = ok(script.get("/admin/"))
    [agent] = [each for each in data["agents"] if each["agent"] == name]
    assert (agent["turns"], agent["errors"], agent["label"]) == (1, 1, None)
    assert data["turns"] >= 1
    assert sum(hour["turns"] for hour in data["hours"]) == data["turns"]
    assert f"{name} fell" in [each["error"] for each in data["recent_errors"]]
    page = browser.get("/admin/").text
    assert f"/admin/agents/{name}" in page
    assert f"/admin/turns/{failed.turn_id}" in page
    for title in ("Turns", "Users", "Tokens", "Cost", "Errors", "Time"):
        assert f"<h2>{title}</h2>" in page
    assert sum(hour["users"] for hour in data["hours"]) >= data["users"]
    assert "Nobody has asked anything yet" not in page


def test_unknown_prices_are_shown_once():
    def tile(**data):
        given = {"judges_micro_usd": 0, **data}
        return loader.render_to_string("studio/monitoring/_cost_tile.html", given)

    unknown = tile(micro_usd=0, unpriced=12)
    assert "<dd>unknown</dd>" in unknown
    assert "no prices</a>" in unknown
    some = tile(micro_usd=120_000, unpriced=12)
    assert "<dd>$0.12</dd>" in some
    assert "+ 12 unpriced</a>" in some


@pytest.mark.parametrize(
    ("number", "data"),
    [
        (None, studio_filters.NO_VALUE),
        (999, "999"),
        (1_645, "1\u202f645"),
        (12_300, "12.3k"),
    ],
)
def test_large_numbers_are_shortened(number, data):
    assert studio_filters.short(number) == data


def test_texts_are_escaped(browser):
    store_turn(
        agent="<b>x</b>", started_at=datetime.now(UTC), outcome="error", error="<i>no"
    )
    page = browser.get("/admin/").text
    assert "<b>x</b>" not in page
    assert "<i>no" not in page


# The figures.


@pytest.mark.usefixtures("rollback")
def test_agents_without_turns_are_listed(configure):
    configure(CONFIG)
    turn(agent="tuned", seconds=2)
    agents = {each["agent"]: each for each in day()["agents"]}
    assert next(iter(agents)) == "tuned"
    assert agents["tuned"]["p50_seconds"] == 2
    assert agents["tuned"]["label"] == "yaml"
    assert agents["assistant"]["turns"] == 0
    assert agents["assistant"]["model"] == "openai/gpt-test"


@pytest.mark.usefixtures("rollback")
def test_query_count_is_independent_of_amount(configure):
    configure(CONFIG)

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            home.page_context(
                recent_activity.summarize_since(SINCE, NOW), User(is_superuser=True)
            )
            day()
        return len(queries)

    turn()
    few = count()
    for number in range(30):
        turn(agent=f"agent-{number}", outcome=("ok", "error")[number % 2])
    assert count() == few
    # Three of them for each kind of task: its queue, read by an index.
    assert few <= 31


@pytest.mark.usefixtures("rollback")
def test_empty_home_page_shows_first_steps(configure, rf):
    configure(CONFIG)
    Turn.objects.all()._raw_delete("default")
    shown = home.page_context(
        recent_activity.summarize_since(SINCE, NOW), User(is_superuser=True)
    )
    assert shown["has_no_turns"]
    assert shown["first_agent"] == "assistant"
    request = rf.get("/admin/", HTTP_HOST="localhost:8421")
    data = loader.render_to_string(
        "studio/monitoring/_first_steps.html", shown, request
    )
    assert "curl http://localhost:8421/v1/chat/completions" in data
    assert "/admin/playground?agent=assistant" in data
    turn()
    assert not home.page_context(
        recent_activity.summarize_since(SINCE, NOW), User(is_superuser=True)
    )["has_no_turns"]


# Alerts.


@pytest.mark.usefixtures("rollback")
def test_error_rate_raises_an_alert(configure):
    configure(CONFIG)
    for _ in range(19):
        turn()
    assert alert_messages() == []
    turn(outcome="error", agent="tuned")
    assert alert_messages() == ["1 of 20 turns failed"]


@pytest.mark.usefixtures("rollback")
def test_failed_logins_raise_an_alert(configure):
    configure(CONFIG)
    for minutes, failures in ((61, 99), (59, 5), (50, 6), (40, 7), (30, 8), (1, 9)):
        AuditEntry.objects.create(
            at=NOW - timedelta(minutes=minutes),
            action="login.fail",
            actor="unauthenticated",
            target="studio",
            origin=f"192.0.2.{minutes}",
            details={"failures": failures, "name": "<ada>"},
        )
    assert alert_messages() == [
        "9 failed sign-ins from 192.0.2.1 for name '<ada>' in the last hour",
        "8 failed sign-ins from 192.0.2.30 for name '<ada>' in the last hour",
        "7 failed sign-ins from 192.0.2.40 for name '<ada>' in the last hour",
        "2 more bursts of failed sign-ins in the last hour",
    ]
    first = alerts.list_alerts(recent_activity.summarize_since(SINCE, NOW), SINCE)[0]
    assert first.details.startswith("For the studio. Further attempts are delayed.")


@pytest.mark.usefixtures("rollback")
def test_failed_tasks_raise_an_alert(configure):
    configure(CONFIG)
    for kind, origin in (("judge", "judge:quality"), ("agent", "api")):
        Task.objects.create(
            kind=kind,
            user_id=uuid.uuid4(),
            agent="assistant",
            origin=origin,
            state="errored",
            created_at=NOW,
            due_at=NOW,
        )
    Task.objects.create(
        kind="extraction",
        user_id=uuid.uuid4(),
        agent="assistant",
        state="errored",
        due_at=NOW,
        created_at=NOW,
        finished_at=NOW,
    )
    assert alert_messages() == [
        "Judge 'quality' could not score 1 reply",
        "1 task of assistant failed",
        "Fact extraction failed for 1 turn",
    ]
    *_, last = alerts.list_alerts(recent_activity.summarize_since(SINCE, NOW), SINCE)
    assert last.address == "/admin/tasks?kind=extraction&state=errored"


@pytest.mark.usefixtures("rollback")
def test_facts_for_operators_raise_an_alert(configure):
    configure(CONFIG)
    held = [HeldFor.CONSENT, HeldFor.SESSION, HeldFor.CONFLICT]
    for held_for in held:
        Fact.objects.create(
            user_id=uuid.uuid4(),
            content="Likes tea",
            status="pending_review",
            held_for=held_for,
            source="extraction",
            said_at=NOW,
            created_at=NOW,
            updated_at=NOW,
        )
    assert alert_messages() == ["1 new fact is pending review"]


@pytest.mark.usefixtures("rollback")
def test_unknown_prices_raise_an_alert(configure):
    configure(CONFIG)
    turn(cost_micro_usd=None)
    [alert] = alerts.list_alerts(recent_activity.summarize_since(SINCE, NOW), SINCE)
    assert alert.message == "1 turn has no price"
    assert "openai/gpt-test" in alert.details


@pytest.mark.usefixtures("rollback")
def test_disabled_telemetry_raises_an_alert(configure):
    configure(CONFIG + "telemetry: {sqlite: {enabled: false}}\n")
    assert alert_messages() == ["Turns are not recorded, so most figures are empty"]


@pytest.mark.usefixtures("rollback")
def test_rejected_override_raises_an_alert(configure):
    configure(CONFIG)
    aside = RejectedOverride(
        "agents", "bob", (Problem(("agents",), "no provider 'x'", "coulisse.E1"),)
    )
    live.set_current(replace(live.current(), rejected_overrides=(aside,)))
    [alert] = alerts.list_alerts(recent_activity.summarize_since(SINCE, NOW), SINCE)
    assert alert.level == "bad"
    assert "bob" in alert.message
    assert alert.address == "/admin/agents/bob"
    assert "no provider 'x'" in alert.details


@pytest.mark.usefixtures("rollback")
def test_broken_file_raises_an_alert(configure):
    configure(CONFIG)
    path = live.current().path
    good = path.read_text()
    watcher = live.ConfigWatcher()
    path.write_text(good + "prompt: x\n")
    watcher.poll()
    assert alert_messages() == []  # It may be half written.
    watcher.poll()
    [alert] = alerts.list_alerts(recent_activity.summarize_since(SINCE, NOW), SINCE)
    assert alert.message == "coulisse.yaml is invalid; the last valid version is in use"
    assert f"coulisse.yaml:{good.count(chr(10)) + 1}:1: " in alert.details
    assert alert.address == "/admin/config/edit"
    path.write_text(good)
    watcher.poll()
    assert alert_messages() == []


@pytest.mark.usefixtures("rollback")
def test_pending_restart_raises_an_alert(configure):
    configure(CONFIG)
    path = live.current().path
    watcher = live.ConfigWatcher()
    path.write_text(path.read_text() + "server: {port: 9999}\n")
    watcher.poll()
    assert alert_messages() == ["Restart required to apply changes in server"]
    path.write_text(path.read_text().replace("server: {port: 9999}\n", ""))
    watcher.poll()
    assert alert_messages() == []
