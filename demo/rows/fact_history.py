"""Facts of one user, with their history."""

import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from core.ids import UserId
from demo import simulated_turns
from demo.dialogues import ScriptedExchange, ScriptedFact
from demo.rows.bulk_insert import DemoRows, columns_of
from demo.rows.turn_records import ThreadTranscript
from demo.simulated_turns import SimulatedTurn
from memory.extraction import extraction_tasks
from memory.facts import public_ids
from memory.models import Fact, FactChange, Owner, Passage
from memory.recall.index import term_encoding, tokenizer
from tasks.models import EXTRACTION, Task

EXTRACTION_DELAY_SECONDS = 20
"""Delay between a turn and the extraction of its facts."""
MAX_RECALLED = 6
"""Maximum facts in a turn's prompt."""
FAILURE_RATE = 0.004
"""Share of extractions that fail."""
UNREADABLE = "the model's reply is not JSON: 'Here is what I noticed: the user …'"


@dataclass
class FactHistory(DemoRows):
    """The facts of one user, until they are written."""

    _user_id: UserId
    _facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Active facts, by category and key."""
    _held: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Facts held for review, by category and key."""

    @property
    def recalled(self) -> list[str]:
        """Ids of the facts that a turn would recall now."""
        newest = [*self._facts.values()][-MAX_RECALLED:]
        return [public_ids.format_fact_id(fact["id"]) for fact in newest]

    def extract_facts(
        self, exchange: ScriptedExchange, turn: SimulatedTurn, thread: ThreadTranscript
    ) -> None:
        """Extract facts from the latest turn, or fail."""
        at = turn.ended_at + timedelta(seconds=EXTRACTION_DELAY_SECONDS)
        is_failed = self._rng.random() < FAILURE_RATE
        facts = () if is_failed else exchange.facts
        for fact in facts:
            self._add_fact(fact, exchange.user, turn.agent, at)
        self._inserts.add(
            Task,
            id=uuid.uuid5(turn.turn_id, EXTRACTION),
            kind=EXTRACTION,
            user_id=self._user_id,
            turn_id=turn.turn_id,
            payload={
                "thread": thread.id,
                "first": thread.length - len(turn.entries),
                "end": thread.length,
                "time_zone": "",
            },
            agent=turn.agent,
            state="errored" if is_failed else "done",
            attempts=1,
            max_failures=extraction_tasks.MAX_FAILURES,
            due_at=turn.ended_at,
            error=UNREADABLE if is_failed else "",
            result=extraction_tasks.format_result(found=len(facts), saved=len(facts)),
            created_at=turn.ended_at,
            started_at=at,
            finished_at=at,
        )

    def _add_fact(
        self, scripted: ScriptedFact, quote: str, agent: str, at: datetime
    ) -> None:
        """Add a fact; it supersedes the one with the same key, unless it is held."""
        key = f"{scripted.category}/{scripted.key}"
        for known in (self._held.get(key), self._facts.get(key)):
            if known is not None and known["content"] == scripted.content:
                known["said_at"] = known["updated_at"] = at
                return
        new = {
            **self._fact(scripted.content, scripted.category, at),
            **columns_of(scripted, "key", "importance"),
            "agent": agent,
            "quote": quote,
            "said_at": at,
        }
        old = self._facts.get(key)
        if scripted.held_for == "injection":
            self._hold(key, new, scripted.held_for, at)
            return
        if old is not None and (scripted.held_for or old["is_pinned"]):
            self._contradict(key, old, new, at)
            return
        self._facts[key] = new
        self._change(new, "created", at, after=_content(new))
        if old is not None:
            self._supersede(old, new, at)

    def _hold(
        self, key: str, fact: dict[str, Any], held_for: str, at: datetime
    ) -> None:
        fact.update(status="pending_review", held_for=held_for)
        self._held[key] = fact
        self._change(fact, "flagged", at, after=_content(fact))

    def _contradict(
        self, key: str, old: dict[str, Any], new: dict[str, Any], at: datetime
    ) -> None:
        """Hold a fact that contradicts one that an operator has pinned."""
        if not old["is_pinned"]:
            self._pin(old, old["updated_at"] + (at - old["updated_at"]) / 2)
        if key not in self._held:
            self._hold(key, {**new, "replaces_id": old["id"]}, "conflict", at)

    def add_episode(self, content: str, said_at: datetime, at: datetime) -> uuid.UUID:
        """Write what happened in a session; return the fact's id."""
        fact = self._fact(content, "episode", at) | {"said_at": said_at}
        self._inserts.add(Fact, **fact)
        self._change(fact, "created", at, after=_content(fact))
        self._passage(fact["id"], content)
        fact_id: uuid.UUID = fact["id"]
        return fact_id

    def _fact(self, content: str, category: str, at: datetime) -> dict[str, Any]:
        """Return the columns of an extracted fact."""
        return {
            "id": simulated_turns.random_uuid(self._rng),
            "user_id": self._user_id,
            "content": content,
            "category": category,
            "status": "active",
            "is_pinned": False,
            "source": "extraction",
            "created_at": at,
            "updated_at": at,
        }

    def _supersede(
        self, old: dict[str, Any], new: dict[str, Any], at: datetime
    ) -> None:
        before = {"status": "active", "superseded_by_id": None}
        after = {"status": "superseded", "superseded_by_id": str(new["id"])}
        self._change(old, "superseded", at, before=before, after=after)
        columns = {"superseded_by_id": new["id"], "updated_at": at}
        self._inserts.add(Fact, **{**old, "status": "superseded", **columns})

    def _change(
        self,
        fact: dict[str, Any],
        action: str,
        at: datetime,
        *,
        by: str = "extraction",
        **states: Any,
    ) -> None:
        self._inserts.add(
            FactChange,
            fact_id=fact["id"],
            user_id=self._user_id,
            at=at,
            action=action,
            by=by,
            **states,
        )

    def close(self, first_at: datetime, now: datetime) -> None:
        """Write the facts and their owner."""
        for fact in self._held.values():
            self._inserts.add(Fact, **fact)
        for fact in self._facts.values():
            self._change_at_random(fact, now)
            self._inserts.add(Fact, **fact)
            if fact["status"] == "active":
                self._passage(fact["id"], fact["content"])
        self._inserts.add(
            Owner,
            user_id=self._user_id,
            version=1,
            time_zone=self._rng.choice(("", "Europe/Lisbon", "Europe/Berlin")),
            created_at=first_at,
        )

    def _change_at_random(self, fact: dict[str, Any], now: datetime) -> None:
        """Pin some and send some to review as an operator; delete some as the user."""
        if fact["is_pinned"]:
            return
        chance = self._rng.random()
        at = fact["updated_at"] + (now - fact["updated_at"]) / 2
        if chance < 0.04:
            self._pin(fact, at)
        elif chance < 0.06:
            changes = {"status": "pending_review", "held_for": "person"}
            fact.update(**changes, updated_at=at)
            states: dict[str, Any] = {
                "before": {"status": "active", "held_for": ""},
                "after": changes,
            }
            self._change(fact, "flagged", at, by="operator", **states)
        elif chance > 0.97:
            fact.update(status="deleted", updated_at=at)
            states = {"before": {"status": "active"}, "after": {"status": "deleted"}}
            self._change(fact, "deleted", at, by="user", **states)

    def _pin(self, fact: dict[str, Any], at: datetime) -> None:
        fact.update(is_pinned=True, updated_at=at)
        states = {"before": {"is_pinned": False}, "after": {"is_pinned": True}}
        self._change(fact, "pinned", at, by="operator", **states)

    def _passage(self, fact_id: uuid.UUID, content: str) -> None:
        terms = tokenizer.tokenize(tokenizer.strip_subject(content))
        vendor = connection.vendor
        # The sweep of a running server adds the vector; the demo calls no provider.
        self._inserts.add(
            Passage,
            user_id=self._user_id,
            fact_id=fact_id,
            terms=term_encoding.write_terms(self._user_id, terms, vendor),
        )


def _content(fact: dict[str, Any]) -> dict[str, Any]:
    return {"content": fact["content"]}
