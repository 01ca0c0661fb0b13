"""Runs of the smoke tests: launched now and then, passed, failed, broken off."""

import random
from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

from core.events import Usage
from core.ids import UserId
from core.trace import ModelCall
from demo import acting, people
from demo.acting import Actor, Played
from demo.bulk import Inserts
from demo.dialogues import Exchange
from demo.rhythm import Calendar
from demo.score_rows import Jury
from demo.turn_rows import Whose, record
from judges.config import JUDGES
from smoke import calls
from smoke.config import SMOKE_TESTS, SmokeTest
from smoke.models import Line, Run
from telemetry.config import TELEMETRY

SAID = {
    "late-booker": (
        Exchange("Two for tonight, anything?", "Two in row K, €24 each. Shall I?"),
        Exchange("yes. aisle?", "K1 and K2 are on the aisle; held until 19:00."),
        Exchange("Perfect, thank you! [FIN]", "See you tonight."),
    ),
    "school-class": (
        Exchange(
            "Good morning, I have thirty pupils and a bus that leaves at 13:30.",
            "Good morning! The school performance begins at 10:00 and lasts two hours.",
        ),
        Exchange(
            "And the talk afterwards? I worry about the bus.",
            "It lasts 25 minutes, so you are out at 12:30 at the latest.",
        ),
        Exchange("Then we'll come. [FIN]", "We look forward to thirty of you."),
    ),
}
EVERY = timedelta(days=3)


class Rehearsal:
    """The runs of one configuration's smoke tests."""

    def __init__(
        self, inserts: Inserts, actor: Actor, jury: Jury, chance: random.Random
    ) -> None:
        self._inserts = inserts
        self._actor = actor
        self._jury = jury
        self._chance = chance
        self._tests = actor.config.get(SMOKE_TESTS)
        self._runs = 0

    def hold(self, calendar: Calendar) -> None:
        """Launch every test every few days."""
        at = calendar.start + EVERY
        while at < calendar.now:
            for test in self._tests.values():
                if self._runs + test.repetitions < people.RUNS:
                    self._launch(test, at)
            at += EVERY

    def _launch(self, test: SmokeTest, at: datetime) -> None:
        batch = acting.uuid_of(self._chance)
        for repetition in range(1, test.repetitions + 1):
            user_id = people.synthetic(self._runs)
            self._runs += 1
            run: dict[str, Any] = {
                "id": acting.uuid_of(self._chance),
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

    def _converse(self, test: SmokeTest, run: dict[str, Any], user_id: UserId) -> None:
        agent = test.target
        if agent not in self._actor.agents:
            agent = self._chance.choice(("front-desk", "front-desk-warm"))
        experiment = "" if agent == test.target else test.target
        whose = Whose(user_id, experiment=experiment, origin="smoke")
        at, scores = run["started_at"], defaultdict(list)
        costs: list[int | None] = []
        persona_micro_usd, position, is_broken = 0, 0, False
        for exchange in SAID[test.name]:
            call = self._persona(test, exchange, at)
            persona_micro_usd += call.cost_micro_usd or 0
            self._line(run, position, exchange.user, [call], at)
            at += timedelta(seconds=call.seconds or 0)
            played = self._actor.play(exchange, agent, at, trouble=0.02)
            at = played.ended_at
            costs.append(record(self._inserts, played, whose))
            if played.outcome != "ok":
                is_broken = True
                break
            self._line(run, position + 1, played.reply, [*played.calls], at, played)
            for name in self._actor.agents[agent].judges:
                for criterion in self._actor.config.get(JUDGES)[name].rubrics:
                    value = self._jury.score(played, criterion)
                    scores[f"{name}.{criterion}"].append(value)
            position += 2
        means = {
            name: {"mean": round(sum(each) / len(each), 2), "count": len(each)}
            for name, each in scores.items()
        }
        failures = [
            f"the mean of {name} is {means[name]['mean']:g}, below {least:g}"
            for name, least in test.expect.min_score.items()
            if name in means and means[name]["mean"] < least
        ]
        ending: dict[str, Any] = {"state": "done", "scores": means}
        ending |= {"stopped_because": "persona_marker", "failures": failures}
        ending |= {"verdict": "failed" if failures else "passed"}
        if is_broken:
            ending = {"state": "failed", "stopped_because": "error"}
            ending |= {"error": played.error or "the client left"}
        is_priced = None not in costs
        self._inserts.add(
            Run,
            **run,
            **ending,
            agent=agent,
            turns=len(costs) - is_broken,
            cost_micro_usd=sum(c or 0 for c in costs) if is_priced else None,
            persona_micro_usd=persona_micro_usd,
            ended_at=at,
            finished_at=at + timedelta(seconds=6),
        )

    def _persona(self, test: SmokeTest, exchange: Exchange, at: datetime) -> ModelCall:
        persona = test.persona
        call = ModelCall("persona", persona.provider, persona.model, started_at=at)
        call.seconds = self._chance.uniform(0.4, 1.4)
        call.finish_reason = "stop"
        call.usage = Usage(200, 5 + len(exchange.user) // 4)
        call.cost_micro_usd = acting.price(
            self._actor.config, persona.provider, persona.model, call.usage, at
        )
        return call

    def _line(
        self,
        run: dict[str, Any],
        position: int,
        text: str,
        made: list[Any],
        at: datetime,
        played: Played | None = None,
    ) -> None:
        most = self._actor.config.get(TELEMETRY).sqlite.max_payload_bytes
        cost = sum(call.cost_micro_usd or 0 for call in made if hasattr(call, "usage"))
        self._inserts.add(
            Line,
            run_id=run["id"],
            position=position,
            speaker="persona" if played is None else "assistant",
            text=text,
            agent="" if played is None else played.agent,
            turn_id=None if played is None else played.turn_id,
            calls=calls.kept(made, most),
            cost_micro_usd=cost,
            seconds=made[0].seconds if played is None else played.seconds,
            said_at=at,
        )
