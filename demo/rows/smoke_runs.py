"""Runs of the smoke tests: passed, failed and aborted."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from core import trace
from core.events import Usage
from core.ids import UserId
from core.trace import Call, ModelCall
from demo import sample_users, simulated_turns
from demo.dialogues import ScriptedExchange
from demo.rows.bulk_insert import DemoRows
from demo.rows.score_records import ScoreRecords
from demo.rows.turn_records import TurnContext
from demo.simulated_turns import SimulatedTurn
from smoke.config import SMOKE_TESTS, SmokeTestConfig
from smoke.evaluation import tool_call_log
from smoke.models import SmokeMessage, SmokeRun
from telemetry.config import TELEMETRY

EXCHANGES = {
    "late-booker": (
        ScriptedExchange(
            "Two for tonight, anything?", "Two in row K, €24 each. Shall I?"
        ),
        ScriptedExchange(
            "yes. aisle?", "K1 and K2 are on the aisle; held until 19:00."
        ),
        ScriptedExchange("Perfect, thank you! [FIN]", "See you tonight."),
    ),
    "school-class": (
        ScriptedExchange(
            "Good morning, I have thirty pupils and a bus that leaves at 13:30.",
            "Good morning! The school performance begins at 10:00 and lasts two hours.",
        ),
        ScriptedExchange(
            "And the talk afterwards? I worry about the bus.",
            "It lasts 25 minutes, so you are out at 12:30 at the latest.",
        ),
        ScriptedExchange("Then we'll come. [FIN]", "We look forward to thirty of you."),
    ),
}
LAUNCH_INTERVAL = timedelta(days=3)


@dataclass
class SmokeRuns(DemoRows):
    """The runs of one configuration's smoke tests."""

    _scores: ScoreRecords
    _runs: int = 0

    def launch_all(self) -> None:
        """Launch every test every few days."""
        at = self._traffic.start + LAUNCH_INTERVAL
        while at < self._traffic.now:
            for test in self._simulator.config.get(SMOKE_TESTS).values():
                if self._runs + test.repetitions < sample_users.MAX_SYNTHETIC_USERS:
                    self._launch(test, at)
            at += LAUNCH_INTERVAL

    def _launch(self, test: SmokeTestConfig, at: datetime) -> None:
        batch = simulated_turns.random_uuid(self._rng)
        for repetition in range(1, test.repetitions + 1):
            user_id = sample_users.synthetic_user(self._runs)
            self._runs += 1
            run: dict[str, Any] = {
                "id": simulated_turns.random_uuid(self._rng),
                "batch": batch,
                "repetition": repetition,
                "test": test.name,
                "target": test.target,
                "user_id": user_id,
                "origin": "command",
                "settings": test.model_dump(mode="json"),
                "attempt": 1,
                "created_at": at,
                "started_at": at + timedelta(seconds=2),
            }
            self._converse(test, run, user_id)

    def _converse(
        self, test: SmokeTestConfig, run: dict[str, Any], user_id: UserId
    ) -> None:
        agent = test.target
        if agent not in self._simulator.agents:
            agent = self._rng.choice(("front-desk", "front-desk-warm"))
        experiment = "" if agent == test.target else test.target
        context = TurnContext(user_id, experiment=experiment, origin="smoke")
        progress = RunProgress(run["started_at"])
        for exchange in EXCHANGES[test.name]:
            call = self._persona_call(test, exchange, progress.at)
            progress.persona_micro_usd += call.cost_micro_usd or 0
            self._add_message(run, progress, exchange.user, [call])
            progress.at += timedelta(seconds=call.seconds or 0)
            turn = self._simulator.simulate(
                exchange, agent, progress.at, failure_rate=0.02
            )
            progress.add(turn)
            if turn.outcome != "ok":
                break
            self._add_message(run, progress, turn.reply, [*turn.calls], turn)
            for name, value in self._scores.score(turn, context).items():
                progress.scores[name].append(value)
        self._inserts.add(SmokeRun, **run, **progress.result_columns(test), agent=agent)

    def _persona_call(
        self, test: SmokeTestConfig, exchange: ScriptedExchange, at: datetime
    ) -> ModelCall:
        persona = test.persona
        call = ModelCall("persona", persona.provider, persona.model, started_at=at)
        call.seconds = self._rng.uniform(0.4, 1.4)
        call.finish_reason = "stop"
        call.usage = Usage(200, 5 + len(exchange.user) // 4)
        call.cost_micro_usd = simulated_turns.price(
            self._simulator.config, persona.provider, persona.model, call.usage, at
        )
        return call

    def _add_message(
        self,
        run: dict[str, Any],
        progress: "RunProgress",
        text: str,
        calls: list[Call],
        turn: SimulatedTurn | None = None,
    ) -> None:
        max_bytes = self._simulator.config.get(TELEMETRY).sqlite.max_payload_bytes
        self._inserts.add(
            SmokeMessage,
            run_id=run["id"],
            position=progress.messages,
            speaker="persona" if turn is None else "assistant",
            text=text,
            agent="" if turn is None else turn.agent,
            turn_id=None if turn is None else turn.turn_id,
            calls=tool_call_log.serialize_calls(calls, max_bytes),
            cost_micro_usd=trace.total_cost(calls),
            seconds=calls[0].seconds if turn is None else turn.seconds,
            sent_at=progress.at,
        )
        progress.messages += 1


@dataclass
class RunProgress:
    at: datetime
    messages: int = 0
    costs: list[int | None] = field(default_factory=list)
    """Costs of the replies; None if unknown."""
    persona_micro_usd: int = 0
    scores: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    last: SimulatedTurn | None = None

    def add(self, turn: SimulatedTurn) -> None:
        """Record a turn of the agent."""
        self.at, self.last = turn.ended_at, turn
        self.costs.append(trace.total_cost(turn.calls))

    def result_columns(self, test: SmokeTestConfig) -> dict[str, Any]:
        """Return the columns of an ended run."""
        is_complete = self.last is not None and self.last.outcome == "ok"
        is_priced = None not in self.costs
        return {
            **(self._verdict_columns(test) if is_complete else self._failure_columns()),
            "turns": len(self.costs) - (not is_complete),
            "cost_micro_usd": sum(c or 0 for c in self.costs) if is_priced else None,
            "persona_micro_usd": self.persona_micro_usd,
            "ended_at": self.at,
            "finished_at": self.at + timedelta(seconds=6),
        }

    def _failure_columns(self) -> dict[str, Any]:
        error = (self.last.error if self.last else None) or "the reply was aborted"
        return {"state": "failed", "stopped_because": "error", "error": error}

    def _verdict_columns(self, test: SmokeTestConfig) -> dict[str, Any]:
        means = {
            name: {"mean": round(sum(each) / len(each), 2), "count": len(each)}
            for name, each in self.scores.items()
        }
        failures = [
            f"the mean of {name} is {means[name]['mean']:.2f} over "
            f"{means[name]['count']} scores (at least {least:g})"
            for name, least in test.expect.min_score.items()
            if name in means and means[name]["mean"] < least
        ]
        return {
            "state": "done",
            "stopped_because": "persona_marker",
            "scores": means,
            "verdict": "failed" if failures else "passed",
            "failures": failures,
        }
