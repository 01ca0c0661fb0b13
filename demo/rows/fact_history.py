"""Facts of one user, with their history."""

import random
import uuid
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from core.ids import UserId
from demo import simulated_turns
from demo.dialogues import ScriptedExchange, ScriptedFact
from demo.rows.bulk_insert import BulkInsert
from demo.rows.turn_records import ThreadTranscript
from demo.simulated_turns import SimulatedTurn
from memory.facts import public_ids
from memory.models import ExtractionJob, Fact, FactChange, Owner, Passage
from memory.recall import passages
from memory.recall.index import term_encoding, tokenizer

LEARNT_AFTER_SECONDS = 20
"""Delay between a turn and the extraction of its facts."""
RECALLED = 6
"""Maximum facts in a turn's prompt."""
LOST = 0.004
"""The share of turns that nothing can be learnt from."""
UNREADABLE = "the model's answer is no JSON: 'Here is what I noticed: the user …'"


class FactHistory:
    """The facts of one person, until they are written."""

    def __init__(
        self, inserts: BulkInsert, user_id: UserId, chance: random.Random
    ) -> None:
        self._inserts = inserts
        self._user_id = user_id
        self._chance = chance
        self._facts: dict[str, dict[str, Any]] = {}
        """The active ones, by category and key."""

    @property
    def recalled(self) -> list[str]:
        """What a turn would be told now."""
        newest = [*self._facts.values()][-RECALLED:]
        return [public_ids.format_fact_id(fact["id"]) for fact in newest]

    def extract_facts(
        self,
        exchange: ScriptedExchange,
        played: SimulatedTurn,
        thread: ThreadTranscript,
    ) -> None:
        """Extract facts from the latest turn, or fail to."""
        at = played.ended_at + timedelta(seconds=LEARNT_AFTER_SECONDS)
        is_lost = self._chance.random() < LOST
        facts = () if is_lost else exchange.facts
        for fact in facts:
            self._learn(fact, exchange.user, played.agent, at)
        self._inserts.add(
            ExtractionJob,
            user_id=self._user_id,
            thread_id=thread.id,
            turn_id=played.turn_id,
            first_position=thread.length - len(played.entries),
            end_position=thread.length,
            agent=played.agent,
            state="failed" if is_lost else "done",
            attempts=5 if is_lost else 1,
            due_at=played.ended_at,
            error=UNREADABLE if is_lost else "",
            facts_found=len(facts),
            facts_saved=len(facts),
            created_at=played.ended_at,
            finished_at=at,
        )

    def _learn(self, told: ScriptedFact, quote: str, agent: str, at: datetime) -> None:
        """Know a fact, in place of what was known under its key."""
        key = f"{told.category}/{told.key}"
        old = self._facts.get(key)
        if old is not None and old["content"] == told.content:
            old["said_at"] = old["updated_at"] = at
            return
        new = self._fact(told, quote, agent, at)
        self._change(new, "created", at, after={"content": told.content})
        self._facts[key] = new
        if old is not None:
            self._retire(old, new, at)

    def _fact(
        self, told: ScriptedFact, quote: str, agent: str, at: datetime
    ) -> dict[str, Any]:
        return {
            "id": simulated_turns.uuid_of(self._chance),
            "user_id": self._user_id,
            "content": told.content,
            "category": told.category,
            "key": told.key,
            "importance": told.importance,
            "status": "active",
            "is_pinned": False,
            "source": "extraction",
            "agent": agent,
            "quote": quote,
            "said_at": at,
            "created_at": at,
            "updated_at": at,
        }

    def _retire(self, old: dict[str, Any], new: dict[str, Any], at: datetime) -> None:
        before = {"status": "active", "superseded_by_id": None}
        after = {"status": "superseded", "superseded_by_id": str(new["id"])}
        self._change(old, "superseded", at, before=before, after=after)
        changed = {"superseded_by_id": new["id"], "updated_at": at}
        self._inserts.add(Fact, **{**old, "status": "superseded", **changed})

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

    def close(self, began_at: datetime, now: datetime) -> None:
        """Write what is known, and whose it is."""
        for fact in self._facts.values():
            self._touch(fact, now)
            self._inserts.add(Fact, **fact)
            if fact["status"] == "active":
                self._passage(fact["id"], fact["content"])
        self._inserts.add(
            Owner,
            user_id=self._user_id,
            version=1,
            time_zone=self._chance.choice(("", "Europe/Lisbon", "Europe/Berlin")),
            created_at=began_at,
        )

    def _touch(self, fact: dict[str, Any], now: datetime) -> None:
        """Have an operator pin a fact or take one back, now and then."""
        luck = self._chance.random()
        at = fact["updated_at"] + (now - fact["updated_at"]) / 2
        if luck < 0.04:
            fact.update(is_pinned=True, updated_at=at)
            states: dict[str, Any] = {
                "before": {"is_pinned": False},
                "after": {"is_pinned": True},
            }
            self._change(fact, "pinned", at, by="operator", **states)
        elif luck > 0.97:
            fact.update(status="deleted", updated_at=at)
            states = {"before": {"status": "active"}, "after": {"status": "deleted"}}
            self._change(fact, "deleted", at, by="user", **states)

    def _passage(self, fact_id: uuid.UUID, content: str) -> None:
        terms = tokenizer.tokenize(passages.strip_subject(content))
        vendor = connection.vendor
        # Its vector comes from the sweep of a running server: nobody is called here.
        self._inserts.add(
            Passage,
            user_id=self._user_id,
            fact_id=fact_id,
            terms=term_encoding.write_terms(self._user_id, terms, vendor),
        )
