"""What clients search for and save outside any turn, and the vectors for it."""

import logging
from dataclasses import replace
from typing import NamedTuple

from agents.config import AGENTS
from config import live
from config.sections import Config
from core.errors import CoulisseError
from memory.known import Embedded, Fusion, Query
from memory.plan import Plan
from providers import embedders
from turns import recollection

logger = logging.getLogger(__name__)

OFF = "off"
"""No agent remembers users, so nothing is embedded."""
FAILED = "failed"
"""The embedder did not answer in time, or had nothing to embed."""


class Prepared(NamedTuple):
    """What to search for, and how far it got."""

    query: Query
    embedding: str
    """The embedder's id, or why words alone are searched by: `OFF` or `FAILED`."""


class Vector(NamedTuple):
    """A fact's vector, or why it has none."""

    embedded: Embedded | None
    error: str = ""


def plan_of_users(config: Config | None = None) -> Plan | None:
    """Return how users are remembered: by all agents, or else by the first that does.

    None is where no agent remembers them. Without a configuration, by the one in force.
    """
    config = config or live.current()
    agents = config.get(AGENTS).values()
    plans = (recollection.of(config, agent).plan for agent in agents)
    return next((plan for plan in plans if plan is not None), None)


async def prepare(text: str, *, fusion: Fusion | None = None) -> Prepared:
    """Return what to search for; `fusion` overrides the configured one."""
    plan = plan_of_users()
    query = await recollection.query(plan, text)
    if fusion is not None:
        query = replace(query, fusion=fusion)
    if plan is None:
        return Prepared(query, OFF)
    return Prepared(query, plan.embedder.id if query.embedded else FAILED)


async def embed(content: str) -> Vector:
    """Return the vector of a fact that is about to be saved."""
    plan = plan_of_users()
    vector = await recollection.embedded_fact(plan, content)
    if vector is None and plan is not None:
        return Vector(None, recollection.NO_VECTOR)
    return Vector(vector)


def threshold() -> float:
    """Return the similarity from which a new fact is compared with a known one."""
    plan = plan_of_users()
    return 0.9 if plan is None else plan.user_state.dedup_threshold


def warm() -> None:
    """Load the embedder ahead, where it is on this machine; call it from a thread."""
    plan = plan_of_users()
    if plan is not None:
        try:
            embedders.warm(plan.embedder)
        except CoulisseError as exc:
            logger.warning("%s; recalling by words alone", exc)
