"""`manage.py demo`: a month that reads as one, made again by its seed, taken away."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from access import tokens as token_keys
from agents.config import AGENTS
from config import loader
from core.ids import TurnId
from demo import clearing, dialogues, people
from demo.dialogues import Step
from demo.filling import Month, Size
from demo.management.commands import demo
from experiments.config import EXPERIMENTS
from memory.models import Fact, FactChange, Message, Owner, Passage, Thread
from smoke.models import Line, Run
from tasks.models import Task
from telemetry import records, spending
from telemetry.models import Expense, ModelCall, ToolCall, Turn
from tests.access.authors import ADA
from tests.memory import lives

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("alone")]

NOW = datetime(2100, 3, 17, 15, 30, tzinfo=UTC)
SMALL = Size(users=8, turns=60, days=7, messages=400)
GIVEN = ("--users", "8", "--turns", "60", "--days", "7", "--messages", "400", "--force")


@pytest.fixture
def alone(database: None) -> Iterator[None]:
    """Nothing a test keeps is there afterwards."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def fill(size: Size = SMALL) -> Month:
    month = Month(demo.theatre(), size, NOW)
    month.fill()
    check_keys()
    return month


def check_keys() -> None:
    """Have the database look at once at what it looks at when all is done."""
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


def test_it_makes_as_much_as_it_is_asked_for():
    run(*GIVEN)
    assert Turn.objects.filter(user_id__in=ids(), origin="chat").count() <= 60
    chats = Turn.objects.filter(user_id__in=ids(), origin="chat").count()
    assert chats >= 55, "only what would be asked in the future is left out"
    messages = Message.objects.filter(thread__user_id__in=ids())
    assert 380 <= messages.count() <= 480
    assert set(Owner.objects.filter(user_id__in=ids()).values_list("user_id")) == {
        (user_id,) for user_id in ids()
    }


def ids() -> list[uuid.UUID]:
    return [person.user_id for person in people.some(8)]


def told() -> dict[str, list[Any]]:
    """Return all that was made, without the numbers databases give."""
    turns = Turn.objects.filter(started_at__gt=NOW - timedelta(days=9))
    return {
        "turns": list(turns.order_by("id").values_list()),
        "messages": list(
            Message.objects.filter(thread__user_id__in=ids())
            .order_by("turn_id", "position")
            .values_list("turn_id", "text", "extra", "created_at")
        ),
        "facts": list(Fact.objects.filter(user_id__in=ids()).order_by("id").values()),
        "tasks": list(Task.objects.filter(user_id__in=ids()).order_by("id").values()),
    }


def test_one_seed_makes_the_same_again():
    fill()
    first = told()
    clearing.run()
    fill()
    assert told() == first
    assert all(first.values())
    clearing.run()
    fill(Size(**{**vars(SMALL), "seed": 2}))
    assert told()["turns"] != first["turns"]


def test_clearing_leaves_all_that_others_have():
    real = uuid.uuid4()
    lives.live(real)
    token_keys.mint("theirs", "ada", by=ADA)
    before = counts()
    run(*GIVEN)
    lives.live(people.synthetic(999), "what was said to the demo since")
    assert counts() != before
    told = run("--clear")
    check_keys()
    after = counts()
    # A run of consolidation belongs to nobody.
    assert after.pop("memory.Consolidation") == before.pop("memory.Consolidation") + 1
    assert after == before
    assert told.startswith("deleted ")
    assert run("--clear") == "deleted 0 rows\n"


def test_it_touches_no_database_of_real_users():
    lives.live(uuid.uuid4())
    with pytest.raises(CommandError, match="has real users"):
        run(*GIVEN[:-1])


def test_it_fills_once():
    run(*GIVEN)
    with pytest.raises(CommandError, match="--clear deletes it first"):
        run(*GIVEN)


@pytest.mark.parametrize(
    "wrong", [("--users", "0"), ("--turns", "-1"), ("--days", "366")]
)
def test_what_cannot_be_made_is_refused(wrong):
    with pytest.raises(CommandError, match="must be from"):
        run(*wrong)


def test_turns_read_as_they_were_recorded():
    fill()
    found = [
        records.tree(TurnId(turn_id))
        for turn_id in Turn.objects.filter(user_id__in=ids()).values_list(
            "id", flat=True
        )
    ]
    deep = ToolCall.objects.filter(turn__user_id__in=ids(), depth=1)
    assert deep.exists(), "agents that were asked call tools, too"
    for record in found:
        assert record is not None
        assert record.started_at <= NOW
        assert record.turn_id.version in (5, 7)
        ended = record.started_at + timedelta(seconds=record.seconds)
        for call in record.calls:
            assert record.started_at <= call.started_at <= ended


def test_a_conversation_is_one_whole():
    fill(Size(users=2, turns=300, days=5))
    for thread in Thread.objects.filter(user_id__in=ids()):
        said = list(thread.messages.order_by("position"))
        assert [each.position for each in said] == [*range(thread.length)]
        times = [each.created_at for each in said]
        assert times == sorted(times)
        assert said[-1].role == "assistant"
        for before, after in pairwise(said):
            assert (before.role == "tool") <= (after.role in ("tool", "assistant"))


def test_what_is_known_of_somebody_has_its_history():
    fill(Size(users=8, turns=300, days=7))
    facts = Fact.objects.filter(user_id__in=ids())
    for fact in facts:
        actions = fact.changes.order_by("at", "id").values_list("action", flat=True)
        assert actions[0] == "created"
        if fact.status == "superseded":
            assert "superseded" in actions
            assert fact.superseded_by is not None
    active = facts.filter(status="active")
    assert Passage.objects.filter(fact__in=active).count() == active.count() > 0
    assert FactChange.objects.filter(user_id__in=ids(), action="superseded").exists()


def test_what_it_cost_is_priced_as_any_turn_is():
    fill()
    spent = {each.key: each for each in spending.by("agent", NOW - timedelta(days=8))}
    known = spent["front-desk-warm"]
    assert known.micro_usd > 0
    assert not known.unknown
    # A model of which nobody has said what it costs.
    assert spent["school-desk"].unknown
    calls = ModelCall.objects.filter(turn__user_id__in=ids())
    assert not calls.filter(error=None, input_tokens=None).exists()
    assert Expense.objects.filter(spent_at__gt=NOW - timedelta(days=8)).exists()


def test_no_worker_takes_what_waits():
    fill()
    open_tasks = Task.objects.filter(user_id__in=ids(), state__in=["queued", "running"])
    assert {task.state for task in open_tasks} == {"queued", "running"}
    assert all(task.due_at > NOW + timedelta(days=29) for task in open_tasks)
    states = Task.objects.filter(user_id__in=ids()).values_list("state", flat=True)
    assert {"done", "errored"} <= set(states)


def test_smoke_runs_have_their_lines():
    fill()
    runs = Run.objects.filter(created_at__gt=NOW - timedelta(days=8))
    assert runs.exists()
    for each in runs:
        lines = list(each.lines.order_by("position"))
        assert lines[0].speaker == Line.Speaker.PERSONA
        assert each.turns == sum(line.speaker == "assistant" for line in lines)


def test_trouble_shows():
    fill(Size(users=20, turns=600, days=12))
    failed = Turn.objects.filter(origin="chat", outcome="error", started_at__lt=NOW)
    bad = NOW - timedelta(days=9)
    assert failed.filter(started_at__range=(bad, bad + timedelta(hours=2))).exists()
    assert failed.exclude(error="").exists()


# The YAML that goes with it.


def test_its_file_is_written_once(tmp_path: Path):
    path = tmp_path / "coulisse.yaml"
    assert "wrote" in run("--init", "-c", str(path))
    assert loader.load(path).get(AGENTS)
    with pytest.raises(CommandError, match="exists already"):
        run("--init", "-c", str(path))


def test_who_speaks_is_in_the_file():
    config = demo.theatre()
    agents = config.get(AGENTS)
    book = dialogues.book()
    assert {each["agent"] for each in book.dialogues} <= {
        *agents,
        *config.get(EXPERIMENTS),
    }
    chance = InTurn()
    for number in range(len(book.dialogues)):
        chance.number = number
        drawn = book.draw(chance, "Ada")
        for exchange in drawn.exchanges:
            assert "{" not in exchange.user + exchange.reply
            for step in exchange.calls:
                check_step(step, agents)


def check_step(step: Step, agents: Any) -> None:
    if step.kind == "subagent":
        assert step.target in agents
    assert (step.result is None) != (step.error is None)
    for each in step.calls:
        check_step(each, agents)


class InTurn:
    """Chance that draws one after the other."""

    number = 0

    def choices(self, found: Any, weights: Any) -> Any:
        return [found[self.number]]

    def choice(self, found: Any) -> Any:
        return found[0]


def test_a_name_is_one_persons_alone():
    names = [person.name for person in people.some(20_000)]
    assert len(set(names)) == len(names)
    assert names[0] == "ada.almeida@demo.example"


def test_few_do_most():
    shares = people.shares(200, 5_000)
    assert sum(shares) == 5_000
    assert sum(shares[:40]) > 2_000
    assert shares[-1] >= 5
