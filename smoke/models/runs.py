"""Smoke runs: conversations of synthetic users."""

import uuid
from dataclasses import asdict
from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q

from core.runtime import shared_clock
from judges.models import Score
from judges.runs import judge_queue
from smoke.config import Expectations, SmokeTestConfig
from smoke.evaluation import expectations, tool_call_log
from smoke.evaluation.expectations import RunResult, ScoreMean
from smoke.models.run_queries import SmokeRunQuerySet
from tasks.models import Task, TaskQuerySet
from telemetry.presentation.turn_serializers import to_usd
from telemetry.statistics.time_buckets import UnindexedColumn

SCORES_SECONDS = 600.0
"""How long a run waits for scores."""


class SmokeRun(models.Model):
    """One conversation, from its launch to its verdict."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        JUDGING = "judging"
        """Ended; waits for scores of its replies."""
        DONE = "done"
        FAILED = "failed"
        """Interrupted by an error; its messages up to then are kept."""
        CANCELLED = "cancelled"

    UNFINISHED = (State.QUEUED, State.RUNNING, State.JUDGING)

    class Stop(models.TextChoices):
        """Why a conversation ended."""

        PERSONA = "persona_marker"
        AGENT = "assistant_marker"
        MAX_TURNS = "max_turns"
        SILENCE = "silence"
        TIMEOUT = "timeout"
        ERROR = "error"

    class Verdict(models.TextChoices):
        PASSED = "passed"
        FAILED = "failed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    batch = models.UUIDField()
    """Common to runs that were launched together."""
    repetition = models.IntegerField()
    """The run's number in the batch, from 1."""
    test = models.CharField(max_length=255)
    target = models.CharField(max_length=255)
    """The agent or experiment, as the test names it."""
    agent = models.CharField(max_length=255, blank=True, default="")
    """The agent that answered; "" until one has."""
    user_id = models.UUIDField()
    """The synthetic user of this run alone."""
    origin = models.CharField(max_length=32)
    """The source: `command`, `schedule`, `studio`."""
    settings = models.JSONField()
    """The test's configuration at launch."""
    state = models.CharField(max_length=16, choices=State, default=State.QUEUED)
    attempt = models.IntegerField(default=0)
    """The attempt of its task that may write to the run."""
    stopped_because = models.CharField(
        max_length=32, choices=Stop, blank=True, default=""
    )
    error = models.TextField(blank=True, default="")
    turns = models.IntegerField(default=0)
    """Number of the agent's replies."""
    cost_micro_usd = models.BigIntegerField(null=True, default=0)
    """Cost of the agent's replies; null if unknown."""
    persona_micro_usd = models.BigIntegerField(null=True, default=0)
    """Cost of the persona's messages."""
    scores = models.JSONField(default=dict)
    """`{"judge.criterion": {"mean": …, "count": …}}`, once it is judged."""
    unscored = models.JSONField(default=dict)
    """Why a judge has not scored every reply, by judge name."""
    verdict = models.CharField(max_length=16, choices=Verdict, blank=True, default="")
    failures = models.JSONField(default=list)
    """Sentences about unmet expectations."""
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    """When the conversation ended."""
    finished_at = models.DateTimeField(null=True)

    objects = SmokeRunQuerySet.as_manager()

    class Meta:
        db_table = "smoke_run"
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    state__in=[
                        "queued",
                        "running",
                        "judging",
                        "done",
                        "failed",
                        "cancelled",
                    ]
                ),
                name="smoke_run_state",
            )
        ]
        indexes = [
            models.Index(fields=["-created_at", "id"], name="smoke_run_newest"),
            models.Index(fields=["test", "-created_at"], name="smoke_run_of_test"),
            models.Index(fields=["batch", "repetition"], name="smoke_run_of_batch"),
            models.Index(fields=["user_id"], name="smoke_run_of_user"),
            models.Index(
                fields=["created_at"],
                condition=Q(state__in=["queued", "running", "judging"]),
                name="smoke_run_open",
            ),
        ]

    def __str__(self) -> str:
        return f"smoke run {self.id} of {self.test}"

    @property
    def outcome(self) -> str:
        """The outcome as one word: the verdict, `aborted` or `open`."""
        is_over = self.state in (self.State.FAILED, self.State.CANCELLED)
        return self.verdict or ("aborted" if is_over else "open")

    @property
    def seconds(self) -> float | None:
        """The duration of the conversation; None while it is open."""
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds()

    @property
    def cost_usd(self) -> float | None:
        """The cost of the replies; None if unknown."""
        return to_usd(self.cost_micro_usd)

    @property
    def persona_cost_usd(self) -> float | None:
        """The cost of the persona's messages; None if unknown."""
        return to_usd(self.persona_micro_usd)

    @property
    def total_micro_usd(self) -> int | None:
        """The cost of the replies and the persona; None if any part is unknown."""
        if self.cost_micro_usd is None or self.persona_micro_usd is None:
            return None
        return self.cost_micro_usd + self.persona_micro_usd

    def previous_batch(self) -> list["SmokeRun"]:
        """Return the runs of the test's batch before this one."""
        earlier = SmokeRun.objects.filter(
            test=self.test, created_at__lt=self.created_at
        )
        if (last := earlier.newest_first().only("batch").first()) is None:
            return []
        return SmokeRun.objects.filter(batch=last.batch).batches()[0]

    # The verdict.

    def judge_tasks(self) -> TaskQuerySet:
        """Return the tasks in which judges score its replies."""
        # By the user's few tasks, not by all tasks of judges.
        tasks = Task.objects.alias(sort=UnindexedColumn("kind"))
        return tasks.filter(sort=judge_queue.KIND, user_id=self.user_id)

    def is_late(self, now: datetime) -> bool:
        """Return whether it has waited too long for scores."""
        timeout = timedelta(seconds=SCORES_SECONDS)
        return self.ended_at is not None and now >= self.ended_at + timeout

    def close_if_judged(self, now: datetime | None = None) -> bool:
        """Close the run if its replies are judged; return whether this call did."""
        now = now or shared_clock.now()
        judging = SmokeRun.objects.filter(pk=self.pk, state=self.State.JUDGING)
        run = judging.first()
        if run is None or (run.judge_tasks().open().exists() and not run.is_late(now)):
            return False
        expect, result = run.expectations, run.load_result()
        unmet = expectations.list_unmet(expect, result)
        closed = judging.update(
            state=self.State.DONE,
            verdict=self.Verdict.FAILED if unmet else self.Verdict.PASSED,
            failures=unmet,
            scores={name: asdict(mean) for name, mean in result.scores.items()},
            unscored=dict(result.unscored),
            finished_at=now,
        )
        return bool(closed)

    @property
    def expectations(self) -> Expectations:
        """The expectations of the test when it was launched."""
        return SmokeTestConfig.model_validate(self.settings).expect

    def check_expectations(self) -> list[tuple[str, bool | None]]:
        """Return the expectations and whether each is met; None while it is open."""
        found = expectations.check_expectations(self.expectations, self.load_result())
        if not self.verdict:
            return [(check.expectation, None) for check in found]
        # The scores as of its end: later ones do not count.
        return [(each.expectation, each.unmet not in self.failures) for each in found]

    def load_result(self) -> RunResult:
        """Return what the expectations are about."""
        replies = list(self.messages.filter(speaker="assistant").order_by("position"))
        values: dict[str, list[int]] = {}
        turn_ids = [each.turn_id for each in replies if each.turn_id is not None]
        for score in Score.objects.of_turns(turn_ids):
            name = f"{score.judge}.{score.criterion}"
            values.setdefault(name, []).append(score.value)
        calls = (call for each in replies for call in each.calls)
        return RunResult(
            replies=[each.text for each in replies],
            tools=tool_call_log.tool_names(calls),
            stopped_because=self.stopped_because,
            cost_micro_usd=self.cost_micro_usd,
            scores={
                name: ScoreMean(sum(found) / len(found), len(found))
                for name, found in sorted(values.items())
            },
            unscored=self._unscored_judges(),
        )

    def _unscored_judges(self) -> dict[str, str]:
        """Return why a judge has not scored every reply, by judge name."""
        timeout = f"not scored within {SCORES_SECONDS:.0f} seconds"
        return {
            judge_queue.judge_of_origin(task.origin): task.error or timeout
            for task in self.judge_tasks().exclude(state=Task.State.DONE)
        }


class SmokeBatch(SmokeRun):
    """The runs that were launched together; the row is the first of them."""

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name_plural = "smoke batches"
