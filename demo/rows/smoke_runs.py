"""Runs of the smoke tests: launched now and then, passed, failed, aborted."""

import random
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
from demo.rows.bulk_insert import BulkInsert
from demo.rows.score_records import ScoreRecords
from demo.rows.turn_records import TurnContext
from demo.simulated_turns import AgentSimulator, SimulatedTurn
from demo.traffic_pattern import TrafficPattern
from smoke.config import SMOKE_TESTS, SmokeTestConfig
from smoke.evaluation import tool_call_log
from smoke.models import SmokeMessage, SmokeRun
from telemetry.config import TELEMETRY

SAID = {
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
EVERY = timedelta(days=3)


class SmokeRuns:
    """The runs of one configuration's smoke tests."""

    def __init__(
        self,
        inserts: BulkInsert,
        actor: AgentSimulator,
        jury: ScoreRecords,
        chance: random.Random,
    ) -> None:
        self._inserts = inserts
        self._actor = actor
        self._jury = jury
        self._chance = chance
        self._tests = actor.config.get(SMOKE_TESTS)
        self._runs = 0

    def hold(self, calendar: TrafficPattern) -> None:
        """Launch every test every few days."""
        at = calendar.start + EVERY
        while at < calendar.now:
            for test in self._tests.values():
                if self._runs + test.repetitions < sample_users.RUNS:
                    self._launch(test, at)
            at += EVERY

    def _launch(self, test: SmokeTestConfig, at: datetime) -> None:
        batch = simulated_turns.uuid_of(self._chance)
        for repetition in range(1, test.repetitions + 1):
            user_id = sample_users.synthetic_user(self._runs)
            self._runs += 1
            run: dict[str, Any] = {
                "id": simulated_turns.uuid_of(self._chance),
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
        if agent not in self._actor.agents:
            agent = self._chance.choice(("front-desk", "front-desk-warm"))
        experiment = "" if agent == test.target else test.target
        whose = TurnContext(user_id, experiment=experiment, origin="smoke")
        held = RunProgress(run["started_at"])
        for exchange in SAID[test.name]:
            self._speak(test, run, exchange, held)
            played = self._actor.simulate(exchange, agent, held.at, trouble=0.02)
            held.add(played)
            if played.outcome != "ok":
                break
            self._line(run, held, played.reply, [*played.calls], played)
            for name, value in self._jury.score(played, whose).items():
                held.scores[name].append(value)
        self._inserts.add(SmokeRun, **run, **held.told(test), agent=agent)

    def _speak(
        self,
        test: SmokeTestConfig,
        run: dict[str, Any],
        exchange: ScriptedExchange,
        held: "RunProgress",
    ) -> None:
        """Have the persona say its part."""
        call = self._persona(test, exchange, held.at)
        held.persona_micro_usd += call.cost_micro_usd or 0
        self._line(run, held, exchange.user, [call])
        held.at += timedelta(seconds=call.seconds or 0)

    def _persona(
        self, test: SmokeTestConfig, exchange: ScriptedExchange, at: datetime
    ) -> ModelCall:
        persona = test.persona
        call = ModelCall("persona", persona.provider, persona.model, started_at=at)
        call.seconds = self._chance.uniform(0.4, 1.4)
        call.finish_reason = "stop"
        call.usage = Usage(200, 5 + len(exchange.user) // 4)
        call.cost_micro_usd = simulated_turns.price(
            self._actor.config, persona.provider, persona.model, call.usage, at
        )
        return call

    def _line(
        self,
        run: dict[str, Any],
        held: "RunProgress",
        text: str,
        made: list[Call],
        played: SimulatedTurn | None = None,
    ) -> None:
        most = self._actor.config.get(TELEMETRY).sqlite.max_payload_bytes
        self._inserts.add(
            SmokeMessage,
            run_id=run["id"],
            position=held.lines,
            speaker="persona" if played is None else "assistant",
            text=text,
            agent="" if played is None else played.agent,
            turn_id=None if played is None else played.turn_id,
            calls=tool_call_log.serialize_calls(made, most),
            cost_micro_usd=trace.total_cost(made),
            seconds=made[0].seconds if played is None else played.seconds,
            sent_at=held.at,
        )
        held.lines += 1


@dataclass
class RunProgress:
    """A run, as far as it is."""

    at: datetime
    lines: int = 0
    costs: list[int | None] = field(default_factory=list)
    """Of the replies; None is unknown."""
    persona_micro_usd: int = 0
    scores: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    last: SimulatedTurn | None = None

    def add(self, played: SimulatedTurn) -> None:
        """Note what the agent did."""
        self.at, self.last = played.ended_at, played
        self.costs.append(trace.total_cost(played.calls))

    def told(self, test: SmokeTestConfig) -> dict[str, Any]:
        """Return what a run's row says of how it ended."""
        is_whole = self.last is not None and self.last.outcome == "ok"
        is_priced = None not in self.costs
        return {
            **(self._verdict(test) if is_whole else self._breakdown()),
            "turns": len(self.costs) - (not is_whole),
            "cost_micro_usd": sum(c or 0 for c in self.costs) if is_priced else None,
            "persona_micro_usd": self.persona_micro_usd,
            "ended_at": self.at,
            "finished_at": self.at + timedelta(seconds=6),
        }

    def _breakdown(self) -> dict[str, Any]:
        why = (self.last.error if self.last else None) or "the reply was aborted"
        return {"state": "failed", "stopped_because": "error", "error": why}

    def _verdict(self, test: SmokeTestConfig) -> dict[str, Any]:
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
