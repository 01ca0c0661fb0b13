"""Questions about many smoke runs, and changes of many."""

import uuid
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Self

from django.db import models, transaction
from django.db.models import Exists, Max, OuterRef, Q

from config import live
from core import ids
from core.ids import UserId
from core.runtime import shared_clock
from judges.runs import judge_queue
from smoke.config import SMOKE_TESTS, SmokeTestConfig
from smoke.errors import RunUnknown
from tasks.models import Task
from tasks.queue.task_spec import TaskSpec

NAMESPACE = uuid.UUID("b0a3c0a6-9f3e-5f4b-8f0a-5e1d8f6f2c11")
KIND = "smoke"
PRIORITY = -20
"""Below what users wait for, and below judges."""
OPEN = ("queued", "running")
KEEP_DAYS = 30
"""Applies to runs of tests that are no longer configured."""
MIN_ID_DIGITS = 4
"""The beginning of an id, without hyphens."""


class SmokeRunQuerySet(models.QuerySet[Any]):
    def find(self, text: str) -> Any:
        """Return the run with this id or id prefix; raises `RunUnknown`."""
        bounds = ids.uuid_range(text, min_digits=MIN_ID_DIGITS)
        if bounds is None:
            raise RunUnknown(
                f"'{text}' is not a run id; `smoke list --runs` lists the runs"
            )
        found: list[Any] = list(self.filter(id__range=bounds)[:2])
        if not found:
            raise RunUnknown
        if len(found) > 1:
            raise RunUnknown(f"several run ids begin with '{text}'; give more digits")
        return found[0]

    def newest_first(self) -> Self:
        """Return the runs in the order of lists."""
        return self.order_by("-created_at", "repetition")

    def first_of_batches(self) -> Self:
        earlier = self.model.objects.filter(
            batch=OuterRef("batch"), repetition__lt=OuterRef("repetition")
        )
        return self.filter(~Exists(earlier))

    def batches(self) -> list[list[Any]]:
        """Return these runs by batch, in the order they were launched."""
        found: dict[uuid.UUID, list[Any]] = {}
        for run in self.order_by("created_at", "repetition").defer("settings"):
            found.setdefault(run.batch, []).append(run)
        return list(found.values())

    def newest_batches(self, test: str, limit: int) -> list[list[Any]]:
        """Return the newest batches of a test, the newest first."""
        first = self.filter(test=test).first_of_batches().newest_first()
        chosen = list(first.values_list("batch", flat=True)[:limit])
        found = {
            runs[0].batch: runs for runs in self.filter(batch__in=chosen).batches()
        }
        return [found[batch] for batch in chosen if batch in found]

    def last_batches(self, tests: Collection[str]) -> dict[str, list[Any]]:
        """Return the newest batch of each test that has any, in two queries."""
        rows = self.filter(test__in=tests).order_by().values_list("test")
        newest = Q(pk__in=[])
        for test, at in rows.annotate(at=Max("created_at")):
            newest |= Q(test=test, created_at=at)
        return {runs[0].test: runs for runs in self.filter(newest).batches()}

    def ids_by_user(self, users: Collection[uuid.UUID]) -> dict[uuid.UUID, uuid.UUID]:
        """Return the run of each synthetic user."""
        return dict(self.filter(user_id__in=users).values_list("user_id", "pk"))

    def expired(self, now: datetime) -> Self:
        """Return the closed runs that are older than their test's `keep_days`."""
        tests = live.current().get(SMOKE_TESTS)
        old = Q(created_at__lt=now - timedelta(days=KEEP_DAYS)) & ~Q(test__in=tests)
        for test in tests.values():
            if test.keep_days is not None:
                before = now - timedelta(days=test.keep_days)
                old |= Q(test=test.name, created_at__lt=before)
        closed = self.exclude(state__in=self.model.UNFINISHED)
        return closed.filter(old).order_by("created_at")

    # Changes.

    def launch(
        self,
        test: SmokeTestConfig,
        *,
        origin: str,
        repetitions: int | None = None,
        batch: uuid.UUID | None = None,
        once: str | None = None,
    ) -> list[Any]:
        """Enqueue a test's conversations, each with its own user; return them.

        If `once` is set, further launches with the same value have no effect.
        """
        count = test.repetitions if repetitions is None else repetitions
        batch = batch or uuid.uuid4()
        if once is not None:
            batch = uuid.uuid5(NAMESPACE, f"{test.name}\n{once}")
        now = shared_clock.now()
        runs = [
            self.model(
                id=uuid.uuid5(batch, str(number)),
                batch=batch,
                repetition=number,
                test=test.name,
                target=test.target,
                user_id=uuid.uuid4(),
                origin=origin,
                settings=test.model_dump(mode="json"),
                created_at=now,
            )
            for number in range(1, count + 1)
        ]
        with transaction.atomic():
            tasks = Task.objects.enqueue([_build_task(run) for run in runs])
            added = {task.key for task in tasks}
            return self.bulk_create(run for run in runs if task_key(run.pk) in added)

    def cancel(self) -> int:
        """Cancel these runs, if they are open, and their judging; return how many."""
        found = self.filter(state__in=self.model.UNFINISHED)
        users = list(found.values_list("user_id", flat=True))
        # The conversations, and the open tasks of judges. First, because the handler of
        # a cancelled task closes the run.
        Task.objects.filter(user_id__in=users).cancel()
        now = shared_clock.now()
        return found.update(state=self.model.State.CANCELLED, finished_at=now)

    def close_finished(self, now: datetime | None = None) -> int:
        """Close runs whose tasks ended without them, and judged runs."""
        now = now or shared_clock.now()
        return self._close_abandoned(now) + self.close_judged(now)

    def close_judged(self, now: datetime | None = None) -> int:
        """Close all runs whose replies are judged; return how many."""
        now = now or shared_clock.now()
        found = self.filter(state=self.model.State.JUDGING)
        tasks = Task.objects.open().filter(kind=judge_queue.KIND)
        users = tasks.filter(user_id__in=found.values("user_id"))
        awaited = set(users.values_list("user_id", flat=True))
        return sum(
            run.close_if_judged(now)
            for run in found.only("user_id", "ended_at")
            if run.user_id not in awaited or run.is_late(now)
        )

    def _close_abandoned(self, now: datetime) -> int:
        """Close runs whose tasks failed, were cancelled or deleted; return how many."""
        closed = 0
        open_ids = list(self.filter(state__in=OPEN).values_list("pk", flat=True))
        # Read after the runs, so that tasks created meanwhile are not missing.
        tasks = Task.objects.open().filter(kind=KIND)
        task_keys = set(tasks.values_list("key", flat=True)) if open_ids else set()
        states, error = self.model.State, self.model.Stop.ERROR
        for run_id in open_ids:
            if task_key(run_id) in task_keys:
                continue
            task = Task.objects.filter(key=task_key(run_id)).first()
            if task is not None and task.is_open:
                continue
            is_cancelled = task is not None and task.state == Task.State.CANCELLED
            closed += self.filter(pk=run_id, state__in=OPEN).update(
                state=states.CANCELLED if is_cancelled else states.FAILED,
                stopped_because="" if is_cancelled else error,
                error=task.error if task is not None else "its task was deleted",
                finished_at=now,
            )
        return closed


def _build_task(run: Any) -> TaskSpec:
    return TaskSpec(
        KIND,
        UserId(run.user_id),
        run.target,
        payload={"run": str(run.id)},
        origin=f"smoke:{run.test}"[:300],
        key=task_key(run.id),
        priority=PRIORITY,
    )


def task_key(run_id: uuid.UUID) -> str:
    """Return the idempotency key of a run's task."""
    return f"smoke:{run_id}"
