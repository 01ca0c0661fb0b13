"""Background tasks of agents and triggers, in every state."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import cycle
from typing import Any

import orjson

from core.trace import Call, TracedToolCall
from demo import simulated_turns
from demo.dialogues import ScriptedExchange
from demo.rows.bulk_insert import DemoRows
from demo.rows.turn_records import TurnContext, record
from demo.sample_users import SampleUser
from demo.simulated_turns import SimulatedTurn
from tasks.models import Task
from tasks.models.claiming import MAX_INTERRUPTIONS
from tasks.models.queryset import INTERRUPTED
from triggers.models import TriggerState
from triggers.runs import trigger_runs
from turns.agent_tasks import task_requests

OPEN_TASK_DELAY = timedelta(days=30)
"""Due time of waiting tasks, so that no worker claims them and calls a model."""
REPORT = (
    "412 seats, 379 sold. Late by four minutes: a lift stood still. One complaint, "
    "about a phone. Row H was full for the first time. Heating in room 2 is still weak."
)
REVIEW = (
    "The paper praises the chorus and the light, and finds the last act a little long."
)
DISPATCH_REPLY = "Both answered: it is done."
EVENING = "Sum up the evening in five lines, for the morning shift."
TRIGGERS = {
    "evening-report": ("rota", EVENING, REPORT),
    "new-review": ("dramaturg", "A review has come out in {}: {}", REVIEW),
}
PAPERS = ("the Courier", "Stage Weekly", "O Farol", "Die Brücke")
END_STATES = (*["done"] * 7, "errored", "cancelled")
OPEN_STATES = ("queued", "queued", "queued", "running", "running")


class BackgroundTasks(DemoRows):
    def add_dispatched(self, turn: SimulatedTurn, context: TurnContext) -> None:
        """Add the tasks that a turn's agents dispatched."""
        for call in _tools(turn.calls):
            if call.name == "dispatch_task":
                arguments = orjson.loads(call.arguments)
                self.add_task(
                    TurnContext(
                        context.user_id, origin="task", token_id=context.token_id
                    ),
                    arguments["agent"],
                    arguments["prompt"],
                    DISPATCH_REPLY,
                    at=turn.ended_at,
                    origin=f"turn:{turn.turn_id}",
                    state=self._rng.choice(END_STATES),
                )

    def add_task(
        self,
        context: TurnContext,
        agent: str,
        prompt: str,
        reply: str,
        *,
        at: datetime,
        origin: str,
        state: str,
    ) -> None:
        """Add a task and, if it has run, its turn."""
        task_id = simulated_turns.random_uuid(self._rng)
        started_at = at + timedelta(seconds=self._rng.uniform(0.1, 4))
        columns: dict[str, Any] = {"state": state, "due_at": at}
        if state in ("done", "errored"):
            turn = self._simulator.simulate(
                ScriptedExchange(prompt, reply),
                agent,
                started_at,
                failure_rate=float(state == "errored"),
                turn_id=Task(id=task_id, attempts=1).turn_ids[0],
            )
            record(self._inserts, turn, context)
            columns |= _ended_columns(turn, started_at)
        elif state == "cancelled":
            columns |= {"finished_at": started_at}
        else:
            columns |= {"due_at": self._traffic.now + OPEN_TASK_DELAY}
        if state == "running":
            columns |= {"started_at": started_at, "worker": "demo:1:0"}
        self._inserts.add(
            Task,
            id=task_id,
            kind=task_requests.KIND,
            user_id=context.user_id,
            agent=agent,
            prompt=prompt,
            origin=origin,
            attempts=int(state not in ("queued", "cancelled")),
            created_at=at,
            **columns,
        )

    def add_open(self, users: list[SampleUser]) -> None:
        """Add queued and running tasks."""
        for state, user in zip(OPEN_STATES, cycle(users), strict=False):
            at = self._traffic.now - timedelta(minutes=self._rng.uniform(1, 50))
            self.add_task(
                TurnContext(user.user_id, origin="task"),
                "rota",
                f"Ask {user.first}'s team who can take the late shift on Friday.",
                "",
                at=at,
                origin="api",
                state=state,
            )

    def add_interrupted(self, user: SampleUser) -> None:
        """Add a task whose worker died three times."""
        at = self._traffic.now - timedelta(days=2)
        self._inserts.add(
            Task,
            id=simulated_turns.random_uuid(self._rng),
            kind=task_requests.KIND,
            user_id=user.user_id,
            agent="dramaturg",
            prompt="Read all programme notes since 1990 and list the plays.",
            origin="api",
            state="errored",
            attempts=MAX_INTERRUPTIONS,
            interruptions=MAX_INTERRUPTIONS,
            created_at=at,
            due_at=at,
            started_at=at,
            finished_at=at + timedelta(minutes=9),
            error=INTERRUPTED,
        )

    def add_triggered(self, team: SampleUser) -> None:
        evenings = self._evenings()
        for at in evenings:
            self._add_run("evening-report", team, EVENING, at)
        reviews = sorted(
            self._traffic.random_time(self._rng)
            for _ in range(max(1, self._traffic.days // 4))
        )
        for at in reviews:
            prompt = TRIGGERS["new-review"][1].format(
                self._rng.choice(PAPERS), "'Light, quick, and never empty.'"
            )
            self._add_run("new-review", team, prompt, at)
        self._add_state("evening-report", evenings, missed=1)
        self._add_state("new-review", reviews, repeated=2)

    def _evenings(self) -> list[datetime]:
        days = range(self._traffic.days, 0, -1)
        at_ten = self._traffic.now.replace(hour=22, minute=0, second=0, microsecond=0)
        evenings = (at_ten - timedelta(days=number) for number in days)
        return [at for at in evenings if at > self._traffic.start]

    def _add_run(self, name: str, team: SampleUser, prompt: str, at: datetime) -> None:
        agent, _, reply = TRIGGERS[name]
        self.add_task(
            TurnContext(team.user_id, origin="task"),
            agent,
            prompt,
            reply,
            at=at,
            origin=trigger_runs.task_origin(name),
            state="errored" if self._rng.random() < 0.06 else "done",
        )

    def _add_state(self, name: str, times: list[datetime], **counts: int) -> None:
        if times and not TriggerState.objects.filter(pk=name).exists():
            self._inserts.add(
                TriggerState,
                name=name,
                run_count=len(times),
                last_run_at=times[-1],
                **counts,
            )


def _ended_columns(turn: SimulatedTurn, started_at: datetime) -> dict[str, Any]:
    """Return the columns of a task whose turn has ended."""
    is_failed = turn.outcome == "error"
    return {
        "state": "errored" if is_failed else "done",
        "turn_id": turn.turn_id,
        "result": turn.reply,
        "error": turn.error or "",
        "failures": int(is_failed),
        "started_at": started_at,
        "finished_at": turn.ended_at,
    }


def _tools(calls: list[Call]) -> Iterator[TracedToolCall]:
    for call in calls:
        if isinstance(call, TracedToolCall):
            yield call
            yield from _tools(call.calls)
