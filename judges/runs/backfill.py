"""Past replies that a judge shall score: how many, at what cost, and into the queue."""

from dataclasses import dataclass
from datetime import datetime

from agents.config import AGENTS
from config.sections import Config
from core.errors import Invalid
from judges.config import JudgeConfig
from judges.runs import past_replies
from judges.runs.past_replies import Backlog, Estimate
from tasks.models import Task


class NobodyJudged(Invalid):
    """No agent names this judge under its judges:, so say whose replies it shall \
score."""

    code = "nobody_judged"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which replies."""

    since: datetime
    share: float
    limit: int
    agent: str | None = None
    """One that was removed since will do, too. None: all that name the judge."""


def find(config: Config, judge: JudgeConfig, wanted: Wanted) -> Backlog:
    """Return what there is to score; raises `NobodyJudged`."""
    return past_replies.find(
        judge.name,
        [wanted.agent] if wanted.agent else agents(config, judge),
        since=wanted.since,
        share=wanted.share,
        limit=wanted.limit,
    )


def agents(config: Config, judge: JudgeConfig) -> list[str]:
    """Return whose replies a judge scores; raises `NobodyJudged`."""
    found = of(config, judge.name)
    if not found:
        raise NobodyJudged(param="agent")
    return found


def of(config: Config, judge: str) -> list[str]:
    """Return the agents that name a judge."""
    return [
        agent.name for agent in config.get(AGENTS).values() if judge in agent.judges
    ]


def estimate(config: Config, judge: JudgeConfig, backlog: Backlog) -> Estimate:
    """Return what it takes to score what is to be scored."""
    return past_replies.estimate(config, judge, backlog.pending)


def add(judge: JudgeConfig, backlog: Backlog) -> list[Task]:
    """Put what is to be scored into the queue; whoever calls wakes a worker."""
    return past_replies.add(judge.name, backlog.pending)
