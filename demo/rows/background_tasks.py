"""Background tasks of agents and triggers, in every state."""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import cycle
from typing import Any

import orjson

from core.trace import Call, TracedToolCall
from demo import simulated_turns
from demo.dialogues import ScriptedExchange
from demo.rows.bulk_insert import BulkInsert
from demo.rows.turn_records import TurnContext, record
from demo.sample_users import SampleUser
from demo.simulated_turns import AgentSimulator, SimulatedTurn
from demo.traffic_pattern import TrafficPattern
from tasks.models import Task
from tasks.queue import attempt_ids, lifecycle
from triggers.models import TriggerState
from triggers.runs import trigger_runs
from turns.agent_tasks import task_requests

FAR = timedelta(days=30)
"""Due time of waiting tasks, so that no worker claims them and calls a model."""
REPORT = (
    "412 seats, 379 sold. Late by four minutes: a lift stood still. One complaint, "
    "about a phone. Row H was full for the first time. Heating in room 2 is still weak."
)
REVIEW = (
    "The paper praises the chorus and the light, and finds the last act a little long."
)
ANSWERED = "Both answered: it is done."
EVENING = "Sum up the evening in five lines, for the morning shift."
TRIGGERS = {
    "evening-report": ("rota", EVENING, REPORT),
    "new-review": ("dramaturg", "A review has come out in {}: {}", REVIEW),
}
PAPERS = ("the Courier", "Stage Weekly", "O Farol", "Die Brücke")
ENDS = ("done", "done", "done", "done", "done", "done", "done", "errored", "cancelled")
WAITING = ("queued", "queued", "queued", "running", "running")


class BackgroundTasks:
    """The tasks of the demo."""

    def __init__(
        self,
        inserts: BulkInsert,
        actor: AgentSimulator,
        calendar: TrafficPattern,
        chance: random.Random,
    ) -> None:
        self._inserts = inserts
        self._actor = actor
        self._calendar = calendar
        self._chance = chance

    def dispatched(self, played: SimulatedTurn, whose: TurnContext) -> None:
        """Add the tasks that a turn's agents asked for."""
        for call in _tools(played.calls):
            if call.name == "dispatch_task":
                told = orjson.loads(call.arguments)
                self.turn(
                    TurnContext(whose.user_id, origin="task", token_id=whose.token_id),
                    *(told["agent"], told["prompt"], ANSWERED),
                    at=played.ended_at,
                    origin=f"turn:{played.turn_id}",
                    state=self._chance.choice(ENDS),
                )

    def turn(
        self,
        whose: TurnContext,
        agent: str,
        prompt: str,
        reply: str,
        *,
        at: datetime,
        origin: str,
        state: str,
    ) -> None:
        """Add a task, and the turn it took where it is over."""
        task_id = simulated_turns.uuid_of(self._chance)
        begin = at + timedelta(seconds=self._chance.uniform(0.1, 4))
        became: dict[str, Any] = {"state": state, "due_at": at}
        if state in ("done", "errored"):
            played = self._actor.simulate(
                ScriptedExchange(prompt, reply),
                *(agent, begin),
                trouble=float(state == "errored"),
                turn_id=attempt_ids.turn_id(task_id, 1),
            )
            record(self._inserts, played, whose)
            became |= _ended(played, begin)
        elif state == "cancelled":
            became |= {"finished_at": begin}
        else:
            became |= {"due_at": self._calendar.now + FAR}
        if state == "running":
            became |= {"started_at": begin, "worker": "demo:1:0"}
        self._inserts.add(
            Task,
            id=task_id,
            kind=task_requests.KIND,
            user_id=whose.user_id,
            agent=agent,
            prompt=prompt,
            origin=origin,
            attempts=int(state not in ("queued", "cancelled")),
            created_at=at,
            **became,
        )

    def waiting(self, people: list[SampleUser]) -> None:
        """Add tasks that are not over."""
        for state, person in zip(WAITING, cycle(people), strict=False):
            at = self._calendar.now - timedelta(minutes=self._chance.uniform(1, 50))
            self.turn(
                *(TurnContext(person.user_id, origin="task"), "rota"),
                f"Ask {person.first}'s team who can take the late shift on Friday.",
                "",
                at=at,
                origin="api",
                state=state,
            )

    def broken_off(self, person: SampleUser) -> None:
        """Add one whose worker died three times."""
        at = self._calendar.now - timedelta(days=2)
        self._inserts.add(
            Task,
            id=simulated_turns.uuid_of(self._chance),
            kind=task_requests.KIND,
            user_id=person.user_id,
            agent="dramaturg",
            prompt="Read all programme notes since 1990 and list the plays.",
            origin="api",
            state="errored",
            attempts=lifecycle.MAX_INTERRUPTIONS,
            interruptions=lifecycle.MAX_INTERRUPTIONS,
            created_at=at,
            due_at=at,
            started_at=at,
            finished_at=at + timedelta(minutes=9),
            error=lifecycle.INTERRUPTED,
        )

    def triggered(self, team: SampleUser) -> None:
        """Add the tasks of triggers."""
        evenings = self._evenings()
        for at in evenings:
            self._fired("evening-report", team, EVENING, at)
        reviews = sorted(
            self._calendar.moment(self._chance)
            for _ in range(max(1, self._calendar.days // 4))
        )
        for at in reviews:
            told = TRIGGERS["new-review"][1].format(
                self._chance.choice(PAPERS), "'Light, quick, and never empty.'"
            )
            self._fired("new-review", team, told, at)
        self._state("evening-report", evenings, missed=1)
        self._state("new-review", reviews, repeated=2)

    def _evenings(self) -> list[datetime]:
        days = range(self._calendar.days, 0, -1)
        at_ten = self._calendar.now.replace(hour=22, minute=0, second=0, microsecond=0)
        found = (at_ten - timedelta(days=number) for number in days)
        return [at for at in found if at > self._calendar.start]

    def _fired(self, name: str, team: SampleUser, prompt: str, at: datetime) -> None:
        agent, _, reply = TRIGGERS[name]
        self.turn(
            *(TurnContext(team.user_id, origin="task"), agent, prompt, reply),
            at=at,
            origin=trigger_runs.task_origin(name),
            state="errored" if self._chance.random() < 0.06 else "done",
        )

    def _state(self, name: str, times: list[datetime], **counts: int) -> None:
        if times and not TriggerState.objects.filter(pk=name).exists():
            self._inserts.add(
                TriggerState,
                name=name,
                run_count=len(times),
                last_run_at=times[-1],
                **counts,
            )


def _ended(played: SimulatedTurn, begin: datetime) -> dict[str, Any]:
    """Return what became of a task whose turn is over."""
    is_failed = played.outcome == "error"
    return {
        "state": "errored" if is_failed else "done",
        "turn_id": played.turn_id,
        "result": played.reply,
        "error": played.error or "",
        "failures": int(is_failed),
        "started_at": begin,
        "finished_at": played.ended_at,
    }


def _tools(calls: list[Call]) -> Iterator[TracedToolCall]:
    for call in calls:
        if isinstance(call, TracedToolCall):
            yield call
            yield from _tools(call.calls)
