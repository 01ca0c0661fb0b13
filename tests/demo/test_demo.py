"""`coulisse demo`: creates reproducible sample data, and deletes it."""

import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from access.tokens import api_tokens as token_keys
from agents.config import AGENTS
from config.loading import loader
from demo import dialogues, removal, sample_users
from demo.dialogues import CallStep
from demo.generator import DemoGenerator, DemoSize
from demo.management.commands import demo
from experiments.config import EXPERIMENTS
from memory.models import Fact, Owner, StoredMessage
from tasks.models import Task
from telemetry.models import RolledHour, Turn
from tests.access.actors import ADA
from tests.memory.user_data import sample_user

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("alone")]

NOW = datetime(2100, 3, 17, 15, 30, tzinfo=UTC)
SMALL = DemoSize(users=4, turns=24, days=3)
OPTIONS = (
    "--users",
    "8",
    "--turns",
    "60",
    "--days",
    "7",
    "--messages",
    "400",
    "--force",
)


@pytest.fixture
def alone(database: None) -> Iterator[None]:
    """Roll back the rows of the test."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def fill(size: DemoSize = SMALL) -> DemoGenerator:
    generator = DemoGenerator(demo.load_demo_config(), size, NOW)
    generator.fill()
    check_keys()
    return generator


def check_keys() -> None:
    """Check the constraints at once, not at the end of the transaction."""
    connection.check_constraints()


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("demo", *arguments, stdout=out, no_color=True)
    return out.getvalue()


def counts() -> dict[str, int]:
    return {
        model._meta.label: model._base_manager.count()
        for model in apps.get_models()
        if model._meta.managed
    }


def test_demo_creates_the_requested_amount():
    run(*OPTIONS)
    assert Turn.objects.filter(user_id__in=ids(), origin="chat").count() <= 60
    chats = Turn.objects.filter(user_id__in=ids(), origin="chat").count()
    assert chats >= 55, "only turns in the future are left out"
    messages = StoredMessage.objects.filter(thread__user_id__in=ids())
    assert 380 <= messages.count() <= 480
    assert set(Owner.objects.filter(user_id__in=ids()).values_list("user_id")) == {
        (user_id,) for user_id in ids()
    }


def test_totals_of_past_hours_are_made_anew():
    for hour in range(24 * 9):
        start = NOW.replace(minute=0, second=0, microsecond=0) - timedelta(hours=hour)
        RolledHour.objects.create(hour=start)
    run(*OPTIONS)
    turns = Turn.objects.filter(user_id__in=ids())
    hours = {
        at.replace(minute=0, second=0, microsecond=0)
        for at in turns.values_list("started_at", flat=True)
    }
    assert not RolledHour.objects.filter(hour__in=hours).exists()


def ids() -> list[uuid.UUID]:
    return [user.user_id for user in sample_users.list_users(8)]


def created_rows() -> dict[str, list[Any]]:
    """Return the created rows, without ids that the database assigns."""
    turns = Turn.objects.filter(started_at__gt=NOW - timedelta(days=9))
    return {
        "turns": list(turns.order_by("id").values_list()),
        "messages": list(
            StoredMessage.objects.filter(thread__user_id__in=ids())
            .order_by("turn_id", "position")
            .values_list("turn_id", "text", "extra", "created_at")
        ),
        "facts": list(Fact.objects.filter(user_id__in=ids()).order_by("id").values()),
        # The payload of an extraction has the id of its thread.
        "tasks": list(
            Task.objects.filter(user_id__in=ids())
            .exclude(kind="extraction")
            .order_by("id")
            .values()
        ),
    }


def test_equal_seeds_create_equal_data():
    fill()
    first = created_rows()
    removal.delete_demo()
    fill()
    assert created_rows() == first
    assert all(first.values())
    removal.delete_demo()
    fill(DemoSize(**{**vars(SMALL), "seed": 2}))
    assert created_rows()["turns"] != first["turns"]


def test_clear_keeps_data_of_other_users():
    real = uuid.uuid4()
    sample_user.store_user_data(real)
    token_keys.create_token("theirs", "ada", by=ADA)
    before = counts()
    run(*OPTIONS)
    sample_user.store_user_data(
        sample_users.synthetic_user(999), "a later message to the demo"
    )
    assert counts() != before
    output = run("--clear")
    check_keys()
    after = counts()
    # A consolidation run belongs to no user.
    assert (
        after.pop("memory.ConsolidationRun")
        == before.pop("memory.ConsolidationRun") + 1
    )
    assert after == before
    assert output.startswith("deleted ")
    assert run("--clear") == "deleted 0 rows\n"


def test_demo_refuses_a_database_with_real_users():
    sample_user.store_user_data(uuid.uuid4())
    with pytest.raises(CommandError, match="has other users"):
        run(*OPTIONS[:-1])


def test_demo_refuses_to_fill_twice():
    run(*OPTIONS)
    with pytest.raises(CommandError, match="delete it with --clear"):
        run(*OPTIONS)


@pytest.mark.parametrize(
    "wrong", [("--users", "0"), ("--turns", "-1"), ("--days", "366")]
)
def test_invalid_amounts_are_refused(wrong):
    with pytest.raises(CommandError, match="must be"):
        run(*wrong)


# The YAML and the dialogues.


def test_init_refuses_to_overwrite_the_file(tmp_path: Path):
    path = tmp_path / "coulisse.yaml"
    assert "wrote" in run("--init", "-c", str(path))
    assert loader.load_file(path).get(AGENTS)
    with pytest.raises(CommandError, match="already exists"):
        run("--init", "-c", str(path))


def test_every_speaking_agent_is_in_the_file():
    config = demo.load_demo_config()
    agents = config.get(AGENTS)
    dialogue_file = dialogues.load_dialogues()
    assert {each["agent"] for each in dialogue_file.dialogues} <= {
        *agents,
        *config.get(EXPERIMENTS),
    }
    for data in dialogue_file.dialogues:
        scripted = dialogue_file.fill(data, random.Random(1), "Ada")
        for exchange in scripted.exchanges:
            assert "{" not in exchange.user + exchange.reply
            for step in exchange.calls:
                check_step(step, agents)


def test_dialogues_do_not_repeat_before_all_are_used():
    dialogue_file = dialogues.load_dialogues()
    count = sum(each["agent"] == "welcome" for each in dialogue_file.dialogues)
    scripted = dialogue_file.iterate(random.Random(1), "Ada", ["welcome"])
    replies = [dialogue.exchanges[0].reply for dialogue in islice(scripted, count)]
    assert len(set(replies)) == count


def check_step(step: CallStep, agents: Any) -> None:
    if step.kind == "subagent":
        assert step.target in agents
    assert (step.result is None) != (step.error is None)
    for each in step.calls:
        check_step(each, agents)


def test_user_names_are_unique():
    names = [user.name for user in sample_users.list_users(20_000)]
    assert len(set(names)) == len(names)
    assert names[0] == "ada.almeida@demo.example"


def test_turns_concentrate_on_few_users():
    shares = sample_users.split_total(200, 5_000)
    assert sum(shares) == 5_000
    assert sum(shares[:40]) > 2_000
    assert shares[-1] >= 5
