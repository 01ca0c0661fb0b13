"""Scores of judges, and feedback of users."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta

import orjson

from core.events import Usage
from demo import simulated_turns
from demo.rows.bulk_insert import DemoRows
from demo.rows.turn_records import TurnContext
from demo.simulated_turns import SimulatedTurn
from judges.config import JUDGES, JudgeConfig
from judges.models import Feedback, Score
from judges.runs import judge_queue
from tasks.models import Task
from telemetry.models import Expense, ExpensePurpose

MEAN_SCORES: Mapping[tuple[str, str], float] = {
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
"""Mean score of each agent by criterion."""
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
"""Reasons for low, middling and high scores."""
COMMENTS = {
    "up": ("Quick and kind.", "Got my seats in a minute!", "", "", ""),
    "down": ("It did not understand what I asked.", "Too slow tonight.", "", ""),
}
FEEDBACK_RATE = 0.05
FAILURE_RATE = 0.02
"""Share of a judge's tasks that fail."""
UNREADABLE = "the judge's reply is not valid: it contains no JSON object"


@dataclass
class ScoreRecords(DemoRows):
    """The scores of one configuration's judges, and users' feedback."""

    expenses: list[int] = field(default_factory=list)
    """Ids of the judges' expenses."""

    def score(self, turn: SimulatedTurn, context: TurnContext) -> dict[str, int]:
        """Let the judges of the agent that sample this turn score it.

        Return the scores by `judge.criterion`.
        """
        scores: dict[str, int] = {}
        if turn.outcome != "ok":
            return scores
        for name in self._simulator.agents[turn.agent].judges:
            judge = self._simulator.config.get(JUDGES)[name]
            if self._rng.random() < judge.sampling_rate:
                values = self._judge(judge, turn, context)
                scores |= {f"{name}.{each}": value for each, value in values.items()}
        if context.origin == "chat" and self._rng.random() < FEEDBACK_RATE:
            self._add_feedback(turn, context)
        return scores

    def _score(self, turn: SimulatedTurn, criterion: str) -> int:
        mean = MEAN_SCORES.get((turn.agent, criterion), 7.0)
        return min(10, max(0, round(self._rng.gauss(mean, 1.3))))

    def _judge(
        self, judge: JudgeConfig, turn: SimulatedTurn, context: TurnContext
    ) -> dict[str, int]:
        at = turn.ended_at + timedelta(seconds=self._rng.uniform(1, 9))
        if self._rng.random() < FAILURE_RATE:
            self._add_task(judge, turn, context, state="errored", error=UNREADABLE)
            return {}
        usage = Usage(900 + len(turn.reply) // 2, 130)
        cost = simulated_turns.price(
            self._simulator.config, judge.provider, judge.model, usage, at
        )
        values = {name: self._score(turn, name) for name in judge.rubrics}
        for criterion, value in values.items():
            self._inserts.add(
                Score,
                turn_id=turn.turn_id,
                user_id=context.user_id,
                judge=judge.name,
                criterion=criterion,
                value=value,
                reasoning=REASONS[criterion][(value > 5) + (value > 7)],
                agent=turn.agent,
                experiment=context.experiment,
                origin=context.origin,
                judged_at=at,
            )
        receipt = {
            "judge": judge.name,
            "provider": judge.provider,
            "model": judge.model,
            "calls": 1,
            "usage": asdict(usage),
            "cost_micro_usd": cost,
            "scores": values,
        }
        self._add_task(judge, turn, context, result=orjson.dumps(receipt).decode())
        self._add_expense(judge, turn, usage, cost)
        return values

    def _add_expense(
        self, judge: JudgeConfig, turn: SimulatedTurn, usage: Usage, cost: int | None
    ) -> None:
        number = self._inserts.new_id(Expense)
        self.expenses.append(number)
        self._inserts.add(
            Expense,
            id=number,
            purpose=ExpensePurpose.JUDGE.value,
            name=judge.name,
            agent=turn.agent,
            provider=judge.provider,
            model=judge.model,
            spent_at=turn.ended_at,
            model_calls=1,
            cost_micro_usd=cost,
            **asdict(usage),
        )

    def _add_task(
        self,
        judge: JudgeConfig,
        turn: SimulatedTurn,
        context: TurnContext,
        *,
        state: str = "done",
        result: str = "",
        error: str = "",
    ) -> None:
        at = turn.ended_at
        self._inserts.add(
            Task,
            id=simulated_turns.random_uuid(self._rng),
            kind=judge_queue.KIND,
            user_id=context.user_id,
            agent=turn.agent,
            payload={
                "judge": judge.name,
                "experiment": context.experiment,
                "origin": context.origin,
            },
            origin=judge_queue.task_origin(judge.name),
            turn_id=turn.turn_id,
            key=judge_queue.task_key(judge.name, turn.turn_id),
            state=state,
            priority=judge_queue.PRIORITY,
            attempts=1,
            failures=1 if error else 0,
            max_failures=judge_queue.MAX_FAILURES,
            due_at=at,
            created_at=at,
            started_at=at + timedelta(seconds=0.4),
            finished_at=at + timedelta(seconds=self._rng.uniform(1, 9)),
            result=result,
            error=error,
        )

    def _add_feedback(self, turn: SimulatedTurn, context: TurnContext) -> None:
        at = turn.ended_at + timedelta(seconds=self._rng.uniform(5, 90))
        likes = self._rng.gauss(MEAN_SCORES.get((turn.agent, "helpfulness"), 7), 2) > 6
        thumb = "up" if likes else "down"
        rating: dict[str, object] = {"thumb": thumb}
        if self._rng.random() < 0.3:
            lowest, highest = (7, 10) if likes else (1, 5)
            rating = {"score": self._rng.randint(lowest, highest)}
        self._inserts.add(
            Feedback,
            id=simulated_turns.random_uuid(self._rng),
            turn_id=turn.turn_id,
            user_id=context.user_id,
            comment=self._rng.choice(COMMENTS[thumb]),
            agent=turn.agent,
            experiment=context.experiment,
            created_at=at,
            updated_at=at,
            **rating,
        )
