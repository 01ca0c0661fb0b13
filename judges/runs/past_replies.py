"""Past replies to judge: which exist, the estimated cost, and the progress."""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agents.config import AGENTS
from config import live
from config.sections import Config
from core import token_estimates
from core.errors import Invalid
from core.ids import TurnId, UserId
from judges.config import JUDGES, JudgeConfig
from judges.errors import JudgeUnused
from judges.models import JudgeTask, Score
from judges.runs import judge_queue, persistence
from judges.scoring import prompt
from memory.models import StoredMessage
from providers.pricing import call_costs
from tasks.models import CLOSED, OPEN, Task
from telemetry.models import Turn

BATCH = 500
"""Turns per query; databases limit the parameters of a statement."""
SAMPLED_REPLIES = 40
"""Replies whose prompts are composed to estimate the average length."""
ANSWER_TOKENS = 60
"""Approximate tokens of an answer per criterion."""
UNFINISHED = ("", "cancelled", "error", "tool_calls")
"""Finish reasons of incomplete replies, which are not judged."""


@dataclass(frozen=True, slots=True)
class PastReply:
    turn_id: TurnId
    user_id: UserId
    agent: str


@dataclass(slots=True)
class JudgingBacklog:
    """The replies of a period, by state."""

    judged: int = 0
    skipped: int = 0
    """There was nothing to judge, or the task was cancelled."""
    failed: list[PastReply] = field(default_factory=list)
    in_progress: list[PastReply] = field(default_factory=list)
    """Queued or running."""
    pending: list[PastReply] = field(default_factory=list)

    @property
    def found(self) -> int:
        """The total number."""
        unjudged = (self.failed, self.in_progress, self.pending)
        return self.judged + self.skipped + sum(map(len, unjudged))


@dataclass(frozen=True, slots=True)
class JudgingEstimate:
    tokens: int
    micro_usd: int | None
    """None if no price is known."""


def find_backlog(
    judge: str,
    agents: Collection[str],
    *,
    since: datetime,
    until: datetime | None = None,
    share: float = 1.0,
    limit: int | None = None,
) -> JudgingBacklog:
    """Return a judge's backlog: the replies of agents since an instant.

    Newest first; `share` samples them deterministically, and `limit` bounds the number
    to judge.
    """
    backlog = JudgingBacklog()
    batch: list[PastReply] = []
    for reply in _iterate_replies(agents, since, until):
        if not _is_sampled(share, judge, reply.turn_id):
            continue
        batch.append(reply)
        if len(batch) == BATCH:
            _classify_batch(judge, batch, backlog)
            batch = []
            if limit is not None and len(backlog.pending) >= limit:
                break
    _classify_batch(judge, batch, backlog)
    if limit is not None:
        del backlog.pending[limit:]
    return backlog


def judged_agents(
    config: Config, judge: JudgeConfig, agent: str | None = None
) -> list[str]:
    """Return the agents that a judge scores; raises `JudgeUnused`.

    `agent` limits them to that one, which may be a removed agent.
    """
    agents = [agent] if agent else agents_naming(config, judge.name)
    if not agents:
        raise JudgeUnused(
            f"no agent lists judge '{judge.name}' under judges:; choose the agent "
            "whose replies it scores",
            param="agent",
        )
    return agents


def agents_naming(config: Config, judge: str) -> list[str]:
    return [
        agent.name for agent in config.get(AGENTS).values() if judge in agent.judges
    ]


def _iterate_replies(
    agents: Collection[str], since: datetime, until: datetime | None
) -> Iterator[PastReply]:
    rows = StoredMessage.objects.filter(
        role="assistant", agent__in=agents, created_at__gte=since
    ).exclude(finish_reason__in=UNFINISHED)
    if until is not None:
        rows = rows.filter(created_at__lt=until)
    values = (
        rows.exclude(text="")
        .order_by("-pk")
        .values_list("turn_id", "thread__user_id", "agent")
    )
    for turn_id, user_id, agent in values.iterator(BATCH):
        yield PastReply(TurnId(turn_id), UserId(user_id), agent)


def _is_sampled(share: float, judge: str, turn_id: TurnId) -> bool:
    """Sample a reply deterministically, so that a later run selects the same ones."""
    if share >= 1:
        return True
    digest = hashlib.sha256(judge.encode() + turn_id.bytes).digest()
    return int.from_bytes(digest[:8]) / 2**64 < share


def _classify_batch(
    judge: str, batch: Sequence[PastReply], backlog: JudgingBacklog
) -> None:
    judged = Score.objects.judged_turn_ids(judge, [reply.turn_id for reply in batch])
    states = _task_states(judge, batch)
    for reply in batch:
        state = states.get(reply.turn_id)
        if reply.turn_id in judged:
            backlog.judged += 1
        elif state is None:
            backlog.pending.append(reply)
        elif state in OPEN:
            backlog.in_progress.append(reply)
        elif state == Task.State.ERRORED:
            backlog.failed.append(reply)
        else:
            backlog.skipped += 1


def _task_states(judge: str, batch: Sequence[PastReply]) -> dict[TurnId, str]:
    tasks = JudgeTask.objects.of_replies(judge, [reply.turn_id for reply in batch])
    return dict(tasks.values_list("turn_id", "state"))


def estimate_cost(
    config: Config, judge: JudgeConfig, replies: Sequence[PastReply]
) -> JudgingEstimate:
    """Return the estimated cost of judging replies, extrapolated from a sample."""
    step = max(len(replies) // SAMPLED_REPLIES, 1)
    samples = [_prompt_tokens(judge, reply) for reply in replies[::step]]
    prompt_tokens = sum(samples) // len(samples) if samples else 0
    answer_tokens = ANSWER_TOKENS * len(judge.rubrics)
    cost = call_costs.estimate_cost(
        config, judge.provider, judge.model, prompt_tokens, answer_tokens
    )
    return JudgingEstimate(
        (prompt_tokens + answer_tokens) * len(replies),
        None if cost is None else cost * len(replies),
    )


def _prompt_tokens(judge: JudgeConfig, reply: PastReply) -> int:
    context = persistence.load_context(reply.user_id, reply.turn_id)
    if context is None:
        return 0
    messages = prompt.build_messages(judge.rubrics, context)
    return sum(map(token_estimates.estimate_message, messages))


def enqueue(judge: str, replies: Sequence[PastReply]) -> list[JudgeTask]:
    """Enqueue replies for judging; return the rows that were added."""
    turns = Turn.objects.filter(pk__in=[reply.turn_id for reply in replies])
    by_turn = {
        turn_id: (experiment or "", origin)
        for turn_id, experiment, origin in turns.values_list(
            "pk", "experiment", "origin"
        )
    }
    specs = []
    for reply in replies:
        experiment, origin = by_turn.get(reply.turn_id, ("", "chat"))
        specs.append(
            judge_queue.build_task(
                judge,
                reply.agent,
                turn_id=reply.turn_id,
                user_id=reply.user_id,
                experiment=experiment,
                reply_origin=origin,
            )
        )
    added: Any = JudgeTask.objects.enqueue(specs)
    return list(added)


def judge_again(reply: PastReply, judges: Sequence[str]) -> int:
    """Queue a reply for judges, scored or not; return for how many.

    Raises `Invalid` if none of them exists.
    """
    known = live.current().get(JUDGES)
    judges = [judge for judge in judges if judge in known]
    if not judges:
        raise Invalid(f"No judge scores the agent '{reply.agent}'")
    tasks = [JudgeTask.objects.of_replies(judge, [reply.turn_id]) for judge in judges]
    requeued: int = sum(each.requeue(CLOSED) for each in tasks)
    return requeued + sum(len(enqueue(judge, [reply])) for judge in judges)
