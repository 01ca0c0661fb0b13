"""What judges and people say of replies."""

import random
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta

import orjson

from core.events import Usage
from demo import simulated_turns
from demo.rows.bulk_insert import BulkInsert
from demo.rows.turn_records import TurnContext
from demo.simulated_turns import AgentSimulator, SimulatedTurn
from judges.config import JUDGES, JudgeConfig
from judges.models import Feedback, Score
from judges.runs import judge_queue
from tasks.models import Task
from telemetry.models import Expense, ExpensePurpose

MEANS: Mapping[tuple[str, str], float] = {
    ("front-desk", "accuracy"): 8.3,
    ("front-desk", "helpfulness"): 7.4,
    ("front-desk", "warmth"): 6.6,
    ("front-desk-warm", "accuracy"): 8.1,
    ("front-desk-warm", "helpfulness"): 7.9,
    ("front-desk-warm", "warmth"): 8.4,
    ("dramaturg", "accuracy"): 7.8,
    ("dramaturg", "helpfulness"): 8.2,
    ("school-desk", "accuracy"): 5.9,
    ("school-desk", "helpfulness"): 6.2,
}
"""What each agent is worth."""
REASONS = {
    "accuracy": (
        "It promises a seat before the tool has held one.",
        "One price is rounded; the rest agrees with what the tools gave.",
        "Every seat, date and price is as the tools gave it.",
    ),
    "helpfulness": (
        "It answers another question than the one that was asked.",
        "The visitor gets an answer and has to ask again for the next step.",
        "It answers, offers the next step and does it.",
    ),
    "warmth": (
        "Correct, but as a ticket machine would say it.",
        "Friendly, if a little brisk.",
        "It greets, takes the visitor's worry up and ends on a kind word.",
    ),
}
"""For what is scored low, middling and high."""
COMMENTS = {
    "up": ("Quick and kind.", "Got my seats in a minute!", "", "", ""),
    "down": ("It did not understand what I asked.", "Too slow tonight.", "", ""),
}
SAYS_SOMETHING = 0.05
FAILS = 0.02
"""The share of a judge's tasks."""
UNREADABLE = "the judge's model answered what cannot be read: no JSON object in it"


class ScoreRecords:
    """The judges of one configuration, and people's own opinions."""

    def __init__(
        self, inserts: BulkInsert, actor: AgentSimulator, chance: random.Random
    ) -> None:
        self._inserts = inserts
        self._actor = actor
        self._chance = chance
        self._judges = actor.config.get(JUDGES)
        self.expenses: list[int] = []
        """The ids of what they cost."""

    def score(self, played: SimulatedTurn, whose: TurnContext) -> dict[str, int]:
        """Have a reply be judged, by those judges of its agent it falls to.

        Return the scores, by `judge.criterion`.
        """
        scores: dict[str, int] = {}
        if played.outcome != "ok":
            return scores
        for name in self._actor.agents[played.agent].judges:
            judge = self._judges[name]
            if self._chance.random() < judge.sampling_rate:
                given = self._judge(judge, played, whose)
                scores |= {f"{name}.{each}": value for each, value in given.items()}
        if whose.origin == "chat" and self._chance.random() < SAYS_SOMETHING:
            self._say(played, whose)
        return scores

    def _score(self, played: SimulatedTurn, criterion: str) -> int:
        mean = MEANS.get((played.agent, criterion), 7.0)
        return min(10, max(0, round(self._chance.gauss(mean, 1.3))))

    def _judge(
        self, judge: JudgeConfig, played: SimulatedTurn, whose: TurnContext
    ) -> dict[str, int]:
        at = played.ended_at + timedelta(seconds=self._chance.uniform(1, 9))
        if self._chance.random() < FAILS:
            self._task(judge, played, whose, state="errored", error=UNREADABLE)
            return {}
        usage = Usage(900 + len(played.reply) // 2, 130)
        cost = simulated_turns.price(
            self._actor.config, judge.provider, judge.model, usage, at
        )
        given = {name: self._score(played, name) for name in judge.rubrics}
        self._give(judge.name, given, played, whose, at=at)
        receipt = {
            "judge": judge.name,
            "provider": judge.provider,
            "model": judge.model,
            "calls": 1,
            "usage": asdict(usage),
            "cost_micro_usd": cost,
            "scores": given,
        }
        self._task(judge, played, whose, result=orjson.dumps(receipt).decode())
        self._expense(judge, played, usage, cost)
        return given

    def _give(
        self,
        judge: str,
        given: dict[str, int],
        played: SimulatedTurn,
        whose: TurnContext,
        *,
        at: datetime,
    ) -> None:
        for criterion, value in given.items():
            self._inserts.add(
                Score,
                turn_id=played.turn_id,
                user_id=whose.user_id,
                judge=judge,
                criterion=criterion,
                value=value,
                reasoning=REASONS[criterion][(value > 5) + (value > 7)],
                agent=played.agent,
                experiment=whose.experiment,
                origin=whose.origin,
                judged_at=at,
            )

    def _expense(
        self, judge: JudgeConfig, played: SimulatedTurn, usage: Usage, cost: int | None
    ) -> None:
        number = self._inserts.new_id(Expense)
        self.expenses.append(number)
        self._inserts.add(
            Expense,
            id=number,
            purpose=ExpensePurpose.JUDGE.value,
            name=judge.name,
            agent=played.agent,
            provider=judge.provider,
            model=judge.model,
            spent_at=played.ended_at,
            model_calls=1,
            cost_micro_usd=cost,
            **asdict(usage),
        )

    def _task(
        self,
        judge: JudgeConfig,
        played: SimulatedTurn,
        whose: TurnContext,
        *,
        state: str = "done",
        result: str = "",
        error: str = "",
    ) -> None:
        at = played.ended_at
        self._inserts.add(
            Task,
            id=simulated_turns.uuid_of(self._chance),
            kind=judge_queue.KIND,
            user_id=whose.user_id,
            agent=played.agent,
            payload={
                "judge": judge.name,
                "experiment": whose.experiment,
                "origin": whose.origin,
            },
            origin=judge_queue.task_origin(judge.name),
            turn_id=played.turn_id,
            key=judge_queue.task_key(judge.name, played.turn_id),
            state=state,
            priority=judge_queue.PRIORITY,
            attempts=1,
            failures=1 if error else 0,
            max_failures=judge_queue.MAX_FAILURES,
            due_at=at,
            created_at=at,
            started_at=at + timedelta(seconds=0.4),
            finished_at=at + timedelta(seconds=self._chance.uniform(1, 9)),
            result=result,
            error=error,
        )

    def _say(self, played: SimulatedTurn, whose: TurnContext) -> None:
        at = played.ended_at + timedelta(seconds=self._chance.uniform(5, 90))
        likes = self._chance.gauss(MEANS.get((played.agent, "helpfulness"), 7), 2) > 6
        thumb = "up" if likes else "down"
        said: dict[str, object] = {"thumb": thumb}
        if self._chance.random() < 0.3:
            said = {"score": self._chance.randint(*((7, 10) if likes else (1, 5)))}
        self._inserts.add(
            Feedback,
            id=simulated_turns.uuid_of(self._chance),
            turn_id=played.turn_id,
            user_id=whose.user_id,
            comment=self._chance.choice(COMMENTS[thumb]),
            agent=played.agent,
            experiment=whose.experiment,
            created_at=at,
            updated_at=at,
            **said,
        )
