"""Every table has an age, or a reason for none."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.apps import apps
from django.db import transaction

from access.models import AuditEntry
from config import live
from config.retention import RetentionConfig
from config.sections import Config
from database import retention
from judges.models import Feedback, Score
from memory.models import ConsolidationRun, Fact, FactChange

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("rollback")]

NOW = datetime(1990, 1, 1, tzinfo=UTC)
"""Earlier than the rows of all other tests."""

OF_OTHERS = "deleted with the rows they belong to"
OF_USERS = "of users, who erase it"
BY_OPERATORS = "as few as operators make"
WITHOUT_AGE = {
    "admin.LogEntry": BY_OPERATORS,
    "auth.Group": BY_OPERATORS,
    "auth.Permission": "one for each table and verb",
    "auth.User": BY_OPERATORS,
    "access.ApiToken": BY_OPERATORS,
    "access.UsageReservation": "deleted when its turn ends, or its process is gone",
    "access.UserNamespace": "one row",
    "config.Override": BY_OPERATORS,
    "config.OverrideVersion": "as few as edits: the history of settings",
    "contenttypes.ContentType": "one for each table",
    "django_celery_beat.ClockedSchedule": BY_OPERATORS,
    "django_celery_beat.CrontabSchedule": BY_OPERATORS,
    "django_celery_beat.IntervalSchedule": BY_OPERATORS,
    "django_celery_beat.PeriodicTask": BY_OPERATORS,
    "django_celery_beat.PeriodicTasks": "one row",
    "django_celery_beat.SolarSchedule": BY_OPERATORS,
    "files.UnusedContent": "deleted with its bytes, every hour",
    "mcp_bridge.McpClient": "one for each server",
    "memory.AgentState": OF_OTHERS,
    "memory.EndUser": "a view",
    "memory.FactMessage": OF_OTHERS,
    "memory.Owner": OF_USERS,
    "memory.Passage": OF_OTHERS,
    "memory.Session": OF_USERS,
    "memory.StoredCompletion": OF_OTHERS,
    "memory.Summary": OF_OTHERS,
    "memory.Thread": OF_USERS,
    "sessions.Session": "unused: the studio has them in cookies",
    "smoke.SmokeMessage": OF_OTHERS,
    "studio.Page": "no table",
    "telemetry.HourlyTotal": OF_OTHERS,
    "telemetry.ModelCall": OF_OTHERS,
    "telemetry.ToolCall": OF_OTHERS,
    "triggers.PeriodicAgentTask": BY_OPERATORS,
    "triggers.ServerStart": "deleted at a start",
    "triggers.TriggerState": "one for each trigger",
}


@pytest.fixture
def rollback(database):
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def configure():
    def configure(**days: int | None) -> None:
        settings = {"retention": RetentionConfig(**days)}
        live.set_current(Config(Path("coulisse.yaml"), settings))

    before = live._current
    yield configure
    live.set_current(before)


def test_every_table_has_an_age_or_a_reason():
    with_age = set(retention.models_with_retention())
    unknown = {
        model._meta.label
        for model in apps.get_models()
        if not model._meta.proxy and model not in with_age
    }
    assert unknown <= WITHOUT_AGE.keys()


def make_rows(at: datetime) -> list:
    turn = {"user_id": uuid4(), "turn_id": uuid4()}
    by = {"judge": "j", "criterion": "c", "value": 1}
    fact = Fact.objects.create(
        user_id=turn["user_id"], content="x", said_at=at, created_at=at, updated_at=at
    )
    return [
        AuditEntry.objects.create(at=at, actor="a", action="token.create"),
        ConsolidationRun.objects.create(started_at=at),
        FactChange.objects.create(fact=fact, user_id=turn["user_id"], at=at),
        Feedback.objects.create(
            **turn, score=1, agent="a", created_at=at, updated_at=at
        ),
        Score.objects.create(**turn, **by, agent="a", judged_at=at),
    ]


def test_old_rows_are_deleted_and_newer_ones_stay(configure):
    names = RetentionConfig.model_fields
    FactChange.objects.all()._raw_delete("default")
    old, new = (make_rows(NOW - timedelta(days=days)) for days in (10, 9))
    configure(**dict.fromkeys(names, 10))
    for row in old:
        assert retention.delete_expired(type(row), NOW) == 0
        later = NOW + timedelta(microseconds=1)
        assert retention.delete_expired(type(row), later) == 1
    for row in new:
        row.refresh_from_db()


def test_nothing_of_users_expires_by_default(configure):
    rows = make_rows(NOW - timedelta(days=20_000))
    configure()
    deleted = [
        type(row).__name__ for row in rows if retention.delete_expired(type(row), NOW)
    ]
    assert deleted == ["AuditEntry", "ConsolidationRun"]
