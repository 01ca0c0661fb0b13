"""`coulisse judge` and `coulisse scores`."""

import json
import threading
import time
import uuid
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from access.users import identity
from core import money
from core.ids import UserId, new_turn_id
from core.messages import Message
from judges.models import Feedback, JudgeTask, Score
from judges.runs import past_replies
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage
from tasks.models import Task
from tasks.worker import local_worker
from testing.wires import ScriptedAnswer
from tests.judges.sample_judges import JUDGE_CONFIG, answer
from tests.memory.user_data.sample_user import AT

pytestmark = pytest.mark.database

PRICES = "\nprices: {openai: {judge-test: {input: 1, output: 10}}}\n"


class PastReplies:
    """Stored replies of an agent that only one test uses."""

    def __init__(self, configure: Any) -> None:
        self.agent = f"agent-{uuid.uuid4().hex[:8]}"
        self.judge = f"judge-{uuid.uuid4().hex[:8]}"
        self.user = f"user-{uuid.uuid4()}"
        self.text = (
            JUDGE_CONFIG.replace("name: judged", f"name: {self.agent}")
            .replace("judges: [quality]", f"judges: [{self.judge}]")
            .replace("judges: [quality, safety]", "judges: [safety]")
            .replace("name: quality", f"name: {self.judge}")
        )
        configure(self.text + PRICES)

    def replied(
        self, count: int = 1, *, finish_reason: str = "stop", text: str = "Paris"
    ) -> None:
        """Store `count` turns."""
        for number in range(count):
            entries = [
                NewMessage(Message("user", f"Which town? {number}"), 5),
                NewMessage(
                    Message("assistant", text),
                    5,
                    agent=self.agent,
                    finish_reason=finish_reason,
                ),
            ]
            message_store.append_turn(self.user_id, "", new_turn_id(), entries)

    @property
    def user_id(self) -> UserId:
        return identity.derive_user_id(self.user)

    def run(self, *args: str, **options: Any) -> str:
        out = StringIO()
        named = ("--judge", self.judge, *args)
        call_command("judge", *named, stdout=out, stderr=StringIO(), **options)
        return out.getvalue()

    @property
    def scored(self) -> int:
        turns = Score.objects.filter(judge=self.judge).values("turn_id")
        return turns.distinct().count()


@pytest.fixture
def replies(server, configure) -> PastReplies:
    # The command also runs queued judge tasks of other tests.
    Task.objects.filter(kind="judge").delete()
    return PastReplies(configure)


@pytest.fixture
def judge_model(fake):
    """A judge that returns valid answers."""
    fake.default = ScriptedAnswer([answer(accuracy=8, tone=6)])
    return fake


def test_past_replies_are_scored(replies, judge_model):
    replies.replied(3)
    output = replies.run("--yes")
    assert "3 replies: 0 already judged" in output
    assert f"3 to judge with '{replies.judge}' (openai/judge-test)" in output
    assert "about $0.00" in output
    assert "3 judged, cost $0.00" in output
    assert replies.scored == 3
    row = Score.objects.filter(judge=replies.judge).first()
    assert (row.agent, row.user_id, row.value) == (
        replies.agent,
        replies.user_id,
        row.value,
    )


def test_second_run_continues(replies, judge_model):
    replies.replied(2)
    replies.run("--yes", "--limit", "1")
    assert replies.scored == 1
    output = replies.run("--yes")
    assert "2 replies: 1 already judged" in output
    assert "1 judged, cost" in output
    assert replies.scored == 2
    request_count = len(judge_model.requests)
    assert "nothing to judge" in replies.run("--yes")
    assert len(judge_model.requests) == request_count


def test_newest_replies_are_scored_first(replies, judge_model):
    replies.replied(3)
    replies.run("--yes", "--limit", "1")
    (request,) = judge_model.requests
    assert "Which town? 2" in request.body["messages"][-1]["content"]


def test_run_can_be_interrupted_and_continued(replies, judge_model, monkeypatch):
    replies.replied(3)
    judge_model.hang("headers")
    interrupt_once(lambda: bool(judge_model.requests), monkeypatch)
    with pytest.raises(CommandError, match="run it again to continue") as caught:
        replies.run("--yes")
    assert caught.value.returncode == 130
    assert replies.scored < 3
    replies.run("--yes")
    assert replies.scored == 3


def interrupt_once(is_time: Callable[[], bool], monkeypatch) -> None:
    """Press Ctrl-C once a condition is true."""
    sleep, pressed = time.sleep, []

    def sleeping(seconds: float) -> None:
        sleep(seconds)
        # Like a real signal, it reaches only the main thread.
        here = threading.current_thread() is threading.main_thread()
        if here and is_time() and not pressed:
            pressed.append(True)
            raise KeyboardInterrupt

    monkeypatch.setattr(local_worker.time, "sleep", sleeping)
    # Do not wait for the hanging call.
    monkeypatch.setattr(local_worker, "DRAIN_SECONDS", 0.1)


def test_queued_judgement_is_not_repeated(replies, judge_model):
    replies.replied()
    backlog = past_replies.find_backlog(replies.judge, [replies.agent], since=AT)
    past_replies.enqueue(replies.judge, backlog.pending)
    output = replies.run("--yes")
    assert "1 in progress" in output
    assert "1 judged" in output
    assert len(judge_model.requests) == 1


def test_incomplete_replies_are_not_judged(replies, judge_model):
    for finish_reason in ("cancelled", "error", "tool_calls"):
        replies.replied(finish_reason=finish_reason)
    replies.replied(text="")
    assert "0 replies" in replies.run("--yes")


def test_dry_run_judges_nothing(replies, fake):
    replies.replied(2)
    assert "2 to judge" in replies.run("--dry-run")
    assert fake.requests == []
    assert not Task.objects.filter(origin=f"judge:{replies.judge}").exists()


def test_confirmation_is_required_before_spending(replies, fake, monkeypatch):
    replies.replied()
    with pytest.raises(CommandError, match="without a terminal"):
        replies.run()
    monkeypatch.setattr("sys.stdin", Terminal("no\n"))
    assert "nothing was judged" in replies.run()
    assert fake.requests == []


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_unknown_price_is_shown(replies, configure, fake):
    configure(replies.text)
    replies.replied()
    assert "cost unknown (add a price under prices:)" in replies.run("--dry-run")
    fake.default = ScriptedAnswer([answer(accuracy=8, tone=6)])
    assert "1 judged, cost unknown" in replies.run("--yes")


def test_sample_is_deterministic(replies, judge_model):
    replies.replied(30)
    output = replies.run("--dry-run", "--sample", "0.5")
    count = int(output.split(" replies")[0])
    assert 3 <= count <= 27
    replies.run("--yes", "--sample", "0.5")
    assert replies.scored == count
    assert "nothing to judge" in replies.run("--sample", "0.5")


def test_failed_judgement_is_retried_on_request(replies, fake):
    replies.replied(2)
    fake.default = ScriptedAnswer(["I would rather not."])
    with pytest.raises(CommandError, match="2 could not be judged"):
        replies.run("--yes")
    assert replies.scored == 0
    fake.default = ScriptedAnswer([answer(accuracy=8, tone=6)])
    rows = JudgeTask.objects.of_judges([replies.judge])
    assert rows.requeue() == 2
    # The cost of earlier attempts is kept.
    assert {task.receipt["calls"] for task in rows} == {2}
    rows.update(state="errored")
    output = replies.run("--yes")
    assert "2 failed" in output
    assert "nothing to judge; --retry includes the failed ones" in output
    before = sum(task.receipt["cost_micro_usd"] for task in rows.all())
    output = replies.run("--yes", "--retry")
    after = sum(task.receipt["cost_micro_usd"] for task in rows.all())
    assert f"2 judged, cost ${money.decimal_usd(after - before)}" in output
    assert replies.scored == 2


def test_since_and_until_limit_the_replies(replies, fake):
    replies.replied()
    assert "0 replies" in replies.run("--dry-run", "--until", "2026-01-01")
    assert "0 replies" in replies.run("--dry-run", "--since", "2199-01-01")


def test_limit_applies_to_retries(replies, fake):
    replies.replied(3)
    fake.default = ScriptedAnswer(["I would rather not."])
    with pytest.raises(CommandError, match="2 could not be judged"):
        replies.run("--yes", "--limit", "2")
    fake.default = ScriptedAnswer([answer(accuracy=8, tone=6)])
    assert "1 to judge" in replies.run("--dry-run", "--retry", "--limit", "1")
    assert "2 judged" in replies.run("--yes", "--retry", "--limit", "2")
    assert replies.scored == 2


def test_agent_without_the_judge_may_be_named(replies, judge_model):
    replies.replied(2)
    output = StringIO()
    named = ("--judge", "safety", "--agent", replies.agent, "--dry-run")
    call_command("judge", *named, stdout=output)
    assert "2 to judge with 'safety'" in output.getvalue()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--judge", "qualty"], "did you mean"),
        (["--judge", "lone"], "no agent lists judge 'lone'"),
        (["--judge", "safety", "--limit", "0"], "--limit must be"),
        (["--judge", "safety", "--sample", "0"], "--sample must be"),
        (["--judge", "safety", "--since", "yore"], "'yore' is not a time"),
    ],
)
def test_invalid_arguments_are_refused(server, configure, args, message):
    lone = "  - {name: lone, provider: openai, model: m, rubrics: {tone: Tone.}}\n"
    configure(JUDGE_CONFIG + lone)
    with pytest.raises(CommandError, match=message):
        call_command("judge", *args, stdout=StringIO())


# coulisse scores


def run_scores(*args: str) -> str:
    out = StringIO()
    call_command("scores", *args, stdout=out)
    return out.getvalue()


def test_scores_are_shown_by_agent_and_criterion(replies, fake):
    replies.replied(3)
    for accuracy, tone in ((10, 6), (8, 6), (3, 6)):
        fake.reply(answer(accuracy=accuracy, tone=tone))
    replies.run("--yes")
    table = [line.split() for line in run_scores("--agent", replies.agent).splitlines()]
    assert [
        replies.agent,
        replies.judge,
        "accuracy",
        "3",
        "7.00",
        "3.61",
        "3",
        "10",
    ] in table
    assert [
        replies.agent,
        replies.judge,
        "tone",
        "3",
        "6.00",
        "0.00",
        "6",
        "6",
    ] in table
    output = json.loads(run_scores("--judge", replies.judge, "--json"))
    assert [line["criterion"] for line in output["scores"]] == ["accuracy", "tone"]
    (judge,) = output["judges"]
    assert (judge["selected"], judge["done"], judge["failed"]) == (3, 3, 0)
    assert judge["cost_usd"] > 0


def test_failures_and_their_reasons_are_shown(replies, fake):
    replies.replied()
    fake.default = ScriptedAnswer(["I would rather not."])
    with pytest.raises(CommandError):
        replies.run("--yes")
    output = run_scores("--judge", replies.judge)
    assert output.startswith("judge tasks:\n")
    assert "could not be read" in output
    (judge,) = json.loads(run_scores("--judge", replies.judge, "--json"))["judges"]
    assert (judge["failed"], judge["calls"]) == (1, 2)
    # Failed attempts are paid, too.
    assert judge["cost_usd"] > 0
    Task.objects.filter(kind="judge").update(error="\x1b[2J said the model")
    assert "failed: \\x1b[2J said the model" in run_scores("--judge", replies.judge)


def test_user_feedback_is_shown(replies):
    for thumb, score in (("up", None), ("down", None), (None, 9)):
        Feedback.objects.create(
            user_id=replies.user_id,
            turn_id=new_turn_id(),
            score=score,
            thumb=thumb,
            agent=replies.agent,
            created_at=AT,
            updated_at=AT,
        )
    table = [line.split() for line in run_scores("--agent", replies.agent).splitlines()]
    assert [replies.agent, "1", "9.00", "1", "1", "0"] in table


def test_empty_result_says_nothing_was_judged(replies):
    assert (
        run_scores("--agent", replies.agent)
        == "no scores, feedback or judge tasks found\n"
    )
