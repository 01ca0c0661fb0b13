"""Fills a database with a month of traffic, user by user."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from config.sections import Config
from core import token_estimates
from core.messages import Message
from demo import dialogues, sample_users, simulated_turns
from demo.dialogues import ScriptedDialogue
from demo.rows import api_tokens, audit_entries
from demo.rows.audit_entries import AuditEntries
from demo.rows.background_tasks import BackgroundTasks
from demo.rows.bulk_insert import BulkInsert
from demo.rows.fact_history import FactHistory
from demo.rows.score_records import ScoreRecords
from demo.rows.smoke_runs import SmokeRuns
from demo.rows.turn_records import ThreadTranscript, TurnContext, record
from demo.sample_users import SampleUser
from demo.simulated_turns import AgentSimulator, SimulatedTurn
from demo.traffic_pattern import TrafficPattern
from experiments import assignment
from experiments.config import EXPERIMENTS
from memory.transcript.message_rows import NewMessage

PATIENCE = 3
"""Retries of a user after an error."""
OLD = (
    ("Is there a matinee this week?", "Yes, on Sunday at 15:00."),
    ("Thanks!", "You are welcome."),
    ("Do you take cards?", "Yes, all of them, and vouchers too."),
    ("When do doors open?", "Half an hour before the beginning."),
    ("ok", "See you then!"),
)
"""What was said before the record begins, of which no more than that is known."""


@dataclass(frozen=True)
class DemoSize:
    """The size of the demo."""

    users: int = 200
    turns: int = 5_000
    days: int = 30
    messages: int = 0
    """At least so many: older conversations make up what the month has not."""
    seed: int = 1


class DemoGenerator:
    """One month of traffic."""

    def __init__(self, config: Config, size: DemoSize, now: datetime) -> None:
        self._size = size
        self._people = sample_users.list_users(size.users)
        self._chance = random.Random(size.seed)  # noqa: S311  invented on purpose
        self._calendar = TrafficPattern(now, size.days)
        self._inserts = BulkInsert()
        self._actor = AgentSimulator(config, self._chance)
        self._jury = ScoreRecords(self._inserts, self._actor, self._chance)
        given = self._inserts, self._actor
        self._work = BackgroundTasks(*given, self._calendar, self._chance)
        self._rehearsal = SmokeRuns(*given, self._jury, self._chance)
        self._experiments = config.get(EXPERIMENTS)
        self._audit = AuditEntries(
            *(self._inserts, self._calendar, self._people, self._chance)
        )
        self._purses = api_tokens.create_tokens(
            *(self._inserts, self._people, self._calendar, self._chance),
            self._audit,
        )
        self.turns = 0
        self.messages = 0

    def fill(self, told: Callable[[int], None] = lambda _: None) -> None:
        """Write all rows; `told` receives the number of users so far."""
        turns = sample_users.split_total(self._size.users, self._size.turns)
        # About as many messages as a turn has on average, and as the rest is to have.
        older = max(0, self._size.messages - round(self._size.turns * 2.9))
        before = sample_users.split_total(self._size.users, older)
        for person, share, old in zip(self._people, turns, before, strict=True):
            self._live(person, share, old)
            self._inserts.write_if_many()
            told(person.number + 1)
        staff = [each for each in self._people if each.writes_to is sample_users.STAFF]
        staff = staff or self._people
        self._work.waiting(staff)
        self._work.broken_off(staff[0])
        self._work.triggered(staff[0])
        self._rehearsal.hold(self._calendar)
        self._purses.write(self._inserts)
        self._audit.write()
        audit_entries.note(
            self._inserts,
            self._calendar.now,
            users=self._size.users,
            turns=self.turns,
            expenses=_ranges(self._jury.expenses),
        )
        self._inserts.write()

    def _live(self, person: SampleUser, turns: int, older: int) -> None:
        """Write one user's month, and the older messages."""
        threads: dict[str, ThreadTranscript] = {}
        known = FactHistory(self._inserts, person.user_id, self._chance)
        if older:
            self._remember(self._thread(threads, person, ""), older)
        began_at = self._calendar.now
        free_at = self._calendar.start
        for at, dialogue in self._conversations(person, turns):
            # A user's conversations do not overlap.
            begin = max(at, free_at)
            began_at = min(began_at, begin)
            taken, free_at = self._converse(
                person, dialogue, begin, turns, threads, known
            )
            turns -= taken
        for thread in threads.values():
            thread.close()
            self.messages += thread.length
        known.close(began_at, self._calendar.now)

    def _conversations(
        self, person: SampleUser, turns: int
    ) -> list[tuple[datetime, ScriptedDialogue]]:
        """Return enough conversations for so many turns, in their order."""
        drawn = dialogues.load_dialogues().draws(
            self._chance, person.first, person.writes_to
        )
        found, planned = [], 0
        while planned < turns:
            dialogue = next(drawn)
            found.append((self._calendar.moment(self._chance), dialogue))
            planned += len(dialogue.exchanges)
        return sorted(found, key=lambda each: each[0])

    def _converse(
        self,
        person: SampleUser,
        dialogue: ScriptedDialogue,
        at: datetime,
        most: int,
        threads: dict[str, ThreadTranscript],
        known: FactHistory,
    ) -> tuple[int, datetime]:
        """Write a conversation; return how many turns it took, at most so many, and
        when it was over."""
        thread = self._thread(threads, person, dialogue.thread)
        thread.tokens = 0
        agent, experiment = self._agent(dialogue, person)
        whose = TurnContext(
            *(person.user_id, dialogue.thread, experiment),
            token_id=self._purses.tokens.get(person.number),
            is_streamed=self._chance.random() < 0.8,
        )
        taken = 0
        for exchange in dialogue.exchanges:
            for _ in range(PATIENCE):
                if taken >= most or at >= self._calendar.now - timedelta(seconds=60):
                    return taken, at
                played = self._actor.simulate(
                    *(exchange, agent, at),
                    said_tokens=thread.tokens,
                    trouble=self._calendar.trouble(at),
                )
                self._keep(played, replace(whose, recalled=known.recalled), thread)
                taken += 1
                at = played.ended_at + self._pause()
                if played.outcome != "error":
                    known.extract_facts(exchange, played, thread)
                    break
        return taken, at

    def _keep(
        self, played: SimulatedTurn, whose: TurnContext, thread: ThreadTranscript
    ) -> None:
        record(self._inserts, played, whose)
        thread.say(played)
        self._jury.score(played, whose)
        self._work.dispatched(played, whose)
        if whose.token_id is not None:
            self._purses.spend(whose.token_id, played)
        self.turns += 1

    def _thread(
        self, threads: dict[str, ThreadTranscript], person: SampleUser, name: str
    ) -> ThreadTranscript:
        if name not in threads:
            threads[name] = ThreadTranscript(self._inserts, person.user_id, name)
        return threads[name]

    def _agent(self, dialogue: ScriptedDialogue, person: SampleUser) -> tuple[str, str]:
        """Return the agent that answers, and its experiment."""
        experiment = self._experiments.get(dialogue.agent)
        if experiment is None:
            return dialogue.agent, ""
        return assignment.choose_variant(experiment, person.user_id), experiment.name

    def _pause(self) -> timedelta:
        return timedelta(seconds=self._chance.lognormvariate(3.4, 0.7))

    def _remember(self, thread: ThreadTranscript, count: int) -> None:
        """Add so many messages from before the month."""
        at = self._calendar.start - timedelta(minutes=7 * count)
        for _ in range(count // 2):
            asked, answered = self._chance.choice(OLD)
            said = Message("user", asked), Message("assistant", answered)
            first, last = (
                NewMessage(message, token_estimates.estimate_message(message))
                for message in said
            )
            reply = NewMessage(last.message, last.tokens, "front-desk", "stop")
            turn_id = simulated_turns.turn_id_of(at, self._chance)
            thread.put([first, reply], turn_id, at)
            at += timedelta(minutes=self._chance.uniform(1, 12))


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    """Return ascending numbers as ranges, ends included."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found
