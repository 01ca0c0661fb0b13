"""Fills a database with a month of simulated traffic, user by user."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from config.sections import Config
from core import token_estimates
from core.messages import Message
from demo import dialogues, sample_users, simulated_turns
from demo.dialogues import ScriptedDialogue
from demo.rows.api_tokens import SampleTokens
from demo.rows.audit_entries import AuditEntries
from demo.rows.background_tasks import BackgroundTasks
from demo.rows.bulk_insert import BulkInsert
from demo.rows.fact_history import FactHistory
from demo.rows.incident_rows import add_incidents
from demo.rows.score_records import ScoreRecords
from demo.rows.session_history import SessionHistory
from demo.rows.smoke_runs import SmokeRuns
from demo.rows.turn_records import ThreadTranscript, TurnContext, record
from demo.sample_users import SampleUser
from demo.simulated_turns import AgentSimulator, SimulatedTurn
from demo.traffic_pattern import TrafficPattern
from experiments import assignment
from experiments.config import EXPERIMENTS
from memory.transcript.message_rows import NewMessage
from telemetry.models import RolledHour

MAX_ATTEMPTS = 3
"""How often a user sends a message that fails."""
OLD_EXCHANGES = (
    ("Is there a matinee this week?", "Yes, on Sunday at 15:00."),
    ("Thanks!", "You are welcome."),
    ("Do you take cards?", "Yes, all of them, and vouchers too."),
    ("When do doors open?", "Half an hour before the beginning."),
    ("ok", "See you then!"),
)
"""Exchanges from before the month, without records."""


@dataclass(frozen=True)
class DemoSize:
    users: int = 200
    turns: int = 5_000
    days: int = 30
    messages: int = 0
    """Minimum number; older conversations supply what the month lacks."""
    seed: int = 1


class DemoGenerator:
    """Generates one month of traffic."""

    def __init__(self, config: Config, size: DemoSize, now: datetime) -> None:
        self._size = size
        self._users = sample_users.list_users(size.users)
        self._rng = random.Random(size.seed)  # noqa: S311  not for security
        self._traffic = TrafficPattern(now, size.days)
        self._inserts = BulkInsert()
        self._simulator = AgentSimulator(config, self._rng)
        self._parts = (
            self._inserts,
            self._simulator,
            self._traffic,
            self._users,
            self._rng,
        )
        self._scores = ScoreRecords(*self._parts)
        self._tasks = BackgroundTasks(*self._parts)
        self._smoke_runs = SmokeRuns(*self._parts, self._scores)
        self._experiments = config.get(EXPERIMENTS)
        self._audit = AuditEntries(*self._parts)
        self._usages = SampleTokens(*self._parts)
        self._usages.create(self._audit)
        self.turns = 0
        self.messages = 0

    def fill(self, report: Callable[[int], None] = lambda _: None) -> None:
        """Write all rows; `report` receives the number of users so far."""
        turns = sample_users.split_total(self._size.users, self._size.turns)
        # A turn has about 2.9 messages on average.
        older = max(0, self._size.messages - round(self._size.turns * 2.9))
        old_messages = sample_users.split_total(self._size.users, older)
        for user, count, old_count in zip(
            self._users, turns, old_messages, strict=True
        ):
            self._generate_user(user, count, old_count)
            self._inserts.write_if_many()
            report(user.number + 1)
        staff = [user for user in self._users if user.agents is sample_users.STAFF]
        staff = staff or self._users
        self._tasks.add_open(staff)
        self._tasks.add_interrupted(staff[0])
        self._tasks.add_triggered(staff[0])
        self._smoke_runs.launch_all()
        self._usages.write()
        self._audit.write()
        self._audit.record_demo(
            users=self._size.users,
            turns=self.turns,
            expenses=_ranges(self._scores.expenses),
        )
        self._inserts.write()
        # Totals of past hours lack these turns.
        for ids in sample_users.all_ids(self._size.users):
            RolledHour.objects.open_again(ids)

    def _generate_user(self, user: SampleUser, turns: int, older: int) -> None:
        """Write a user's month, and the older messages."""
        threads: dict[str, ThreadTranscript] = {}
        facts = FactHistory(*self._parts, user.user_id)
        sessions = SessionHistory(*self._parts, facts)
        if older:
            self._add_old_messages(self._thread(threads, user, ""), older)
        first_at = self._traffic.now
        free_at = self._traffic.start
        for at, dialogue in self._conversations(user, turns):
            # A user's conversations do not overlap.
            started_at = max(at, free_at)
            first_at = min(first_at, started_at)
            thread = self._thread(threads, user, dialogue.thread)
            sessions.begin(thread, started_at)
            count, free_at = self._converse(
                user, dialogue, started_at, turns, thread, facts
            )
            is_ended = count >= len(dialogue.exchanges)
            sessions.note(thread, dialogue, is_ended=is_ended)
            turns -= count
        sessions.close(self._traffic.now)
        for thread in threads.values():
            thread.close()
            self.messages += thread.length
        facts.close(first_at, self._traffic.now)

    def _conversations(
        self, user: SampleUser, turns: int
    ) -> list[tuple[datetime, ScriptedDialogue]]:
        """Return enough conversations for so many turns, in order of time."""
        file = dialogues.load_dialogues()
        scripted = file.iterate(self._rng, user.first, user.agents)
        conversations, planned = [], 0
        while planned < turns:
            dialogue = next(scripted)
            conversations.append((self._traffic.random_time(self._rng), dialogue))
            planned += len(dialogue.exchanges)
        return sorted(conversations, key=lambda item: item[0])

    def _converse(
        self,
        user: SampleUser,
        dialogue: ScriptedDialogue,
        at: datetime,
        limit: int,
        thread: ThreadTranscript,
        facts: FactHistory,
    ) -> tuple[int, datetime]:
        """Write a conversation of at most `limit` turns.

        Return the number of its turns, and its end.
        """
        thread.tokens = 0
        agent, experiment = self._agent(dialogue, user)
        context = TurnContext(
            user.user_id,
            dialogue.thread,
            experiment,
            token_id=self._usages.tokens.get(user.number),
            is_streamed=self._rng.random() < 0.8,
        )
        count = 0
        for exchange in dialogue.exchanges:
            for _ in range(MAX_ATTEMPTS):
                if count >= limit or at >= self._traffic.now - timedelta(seconds=60):
                    return count, at
                turn = self._simulator.simulate(
                    exchange,
                    agent,
                    at,
                    history_tokens=thread.tokens,
                    failure_rate=self._traffic.failure_rate(at),
                )
                self._write_turn(
                    turn, replace(context, recalled=facts.recalled), thread
                )
                count += 1
                pause = timedelta(seconds=self._rng.lognormvariate(3.4, 0.7))
                at = turn.ended_at + pause
                if turn.outcome != "error":
                    facts.extract_facts(exchange, turn, thread)
                    break
        return count, at

    def _write_turn(
        self, turn: SimulatedTurn, context: TurnContext, thread: ThreadTranscript
    ) -> None:
        record(self._inserts, turn, context)
        thread.add_turn(turn)
        self._scores.score(turn, context)
        self._tasks.add_dispatched(turn, context)
        add_incidents(self._inserts, turn, context)
        if context.token_id is not None:
            self._usages.charge(context.token_id, turn)
        self.turns += 1

    def _thread(
        self, threads: dict[str, ThreadTranscript], user: SampleUser, name: str
    ) -> ThreadTranscript:
        if name not in threads:
            threads[name] = ThreadTranscript(self._inserts, user.user_id, name)
        return threads[name]

    def _agent(self, dialogue: ScriptedDialogue, user: SampleUser) -> tuple[str, str]:
        """Return the agent that answers, and its experiment."""
        experiment = self._experiments.get(dialogue.agent)
        if experiment is None:
            return dialogue.agent, ""
        return assignment.choose_variant(experiment, user.user_id), experiment.name

    def _add_old_messages(self, thread: ThreadTranscript, count: int) -> None:
        """Add messages from before the month."""
        at = self._traffic.start - timedelta(minutes=7 * count)
        for _ in range(count // 2):
            texts = self._rng.choice(OLD_EXCHANGES)
            question = Message("user", texts[0])
            answer = Message("assistant", texts[1])
            first = NewMessage(question, token_estimates.estimate_message(question))
            reply = NewMessage(
                answer, token_estimates.estimate_message(answer), "front-desk", "stop"
            )
            turn_id = simulated_turns.turn_id_of(at, self._rng)
            thread.add_messages([first, reply], turn_id, at)
            at += timedelta(minutes=self._rng.uniform(1, 12))


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    """Return ascending numbers as ranges that include both ends."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges
