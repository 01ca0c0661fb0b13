"""Backfill: finds past replies for a judge, estimates the cost, and enqueues them."""

from dataclasses import dataclass
from datetime import datetime

from agents.config import AGENTS
from config.sections import Config
from core.errors import Invalid
from judges.config import JudgeConfig
from judges.runs import past_replies
from judges.runs.past_replies import JudgingBacklog, JudgingEstimate
from tasks.models import Task


class JudgeUnused(Invalid):
    """No agent lists this judge under judges:. Choose the agent whose replies it \
scores."""

    code = "judge_unused"


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """The selection of replies."""

    since: datetime
    share: float
    limit: int
    agent: str | None = None
    """May be a removed agent. None: all agents that name the judge."""


def find_replies(
    config: Config, judge: JudgeConfig, request: BackfillRequest
) -> JudgingBacklog:
    """Return the replies to score; raises `JudgeUnused`."""
    return past_replies.find_backlog(
        judge.name,
        [request.agent] if request.agent else judged_agents(config, judge),
        since=request.since,
        share=request.share,
        limit=request.limit,
    )


def judged_agents(config: Config, judge: JudgeConfig) -> list[str]:
    """Return the agents that a judge scores; raises `JudgeUnused`."""
    agents = agents_naming(config, judge.name)
    if not agents:
        raise JudgeUnused(param="agent")
    return agents


def agents_naming(config: Config, judge: str) -> list[str]:
    """Return the agents that name a judge."""
    return [
        agent.name for agent in config.get(AGENTS).values() if judge in agent.judges
    ]


def estimate_cost(
    config: Config, judge: JudgeConfig, backlog: JudgingBacklog
) -> JudgingEstimate:
    """Return the estimated cost of a backlog."""
    return past_replies.estimate_cost(config, judge, backlog.pending)


def enqueue_judging(judge: JudgeConfig, backlog: JudgingBacklog) -> list[Task]:
    """Enqueue a backlog; the caller notifies a worker."""
    return past_replies.enqueue(judge.name, backlog.pending)
