"""Past replies to judge: which there are, what it may cost, and how far it is."""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from config.sections import Config
from core import token_estimates
from core.ids import TurnId, UserId
from judges.config import JudgeConfig
from judges.ratings import scores
from judges.runs import judge_queue, persistence
from judges.scoring import prompt
from memory.models import Message
from providers.pricing import call_costs
from tasks.models import Task
from tasks.queue import lifecycle
from telemetry.models import Turn

BATCH = 500
"""Turns looked up at a time: databases limit the values of a statement."""
LOOKED_AT = 40
"""Replies whose prompts are composed to learn how long they are."""
ANSWER_TOKENS = 60
"""What an answer takes for each criterion, about."""
UNFINISHED = ("", "cancelled", "error", "tool_calls")
"""How replies ended that nobody judges: they are not whole."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply that was stored."""

    turn_id: TurnId
    user_id: UserId
    agent: str


@dataclass(slots=True)
class Backlog:
    """The replies of some time, by what is to be done about them."""

    judged: int = 0
    given_up: int = 0
    """Tried to no end: there was nothing to judge, or somebody cancelled it."""
    failed: list[Reply] = field(default_factory=list)
    in_progress: list[Reply] = field(default_factory=list)
    """Queued or running already."""
    pending: list[Reply] = field(default_factory=list)

    @property
    def found(self) -> int:
        """How many there are in all."""
        rest = (self.failed, self.in_progress, self.pending)
        return self.judged + self.given_up + sum(map(len, rest))


@dataclass(frozen=True, slots=True)
class Estimate:
    """What judging takes, about."""

    tokens: int
    micro_usd: int | None
    """None where nobody knows the price."""


def find(
    judge: str,
    agents: Collection[str],
    *,
    since: datetime,
    until: datetime | None = None,
    share: float = 1.0,
    limit: int | None = None,
) -> Backlog:
    """Return what a judge has to do about the replies of agents since an instant.

    The newest first; `share` of them, always the same ones, and of those that are to be
    judged `limit`.
    """
    backlog = Backlog()
    batch: list[Reply] = []
    for reply in _replies(agents, since, until):
        if not _is_in(share, judge, reply.turn_id):
            continue
        batch.append(reply)
        if len(batch) == BATCH:
            _sort(judge, batch, backlog)
            batch = []
            if limit is not None and len(backlog.pending) >= limit:
                break
    _sort(judge, batch, backlog)
    if limit is not None:
        del backlog.pending[limit:]
    return backlog


def _replies(
    agents: Collection[str], since: datetime, until: datetime | None
) -> Iterator[Reply]:
    rows = Message.objects.filter(
        role="assistant", agent__in=agents, created_at__gte=since
    ).exclude(finish_reason__in=UNFINISHED)
    if until is not None:
        rows = rows.filter(created_at__lt=until)
    found = rows.exclude(text="").order_by("-pk")
    columns = found.values_list("turn_id", "thread__user_id", "agent")
    for turn_id, user_id, agent in columns.iterator(BATCH):
        yield Reply(TurnId(turn_id), UserId(user_id), agent)


def _is_in(share: float, judge: str, turn_id: TurnId) -> bool:
    """Draw a reply, always alike: who goes on later draws the same ones."""
    if share >= 1:
        return True
    drawn = hashlib.sha256(judge.encode() + turn_id.bytes).digest()
    return int.from_bytes(drawn[:8]) / 2**64 < share


def _sort(judge: str, batch: Sequence[Reply], backlog: Backlog) -> None:
    judged = scores.judged_by(judge, [reply.turn_id for reply in batch])
    states = _states(judge, batch)
    for reply in batch:
        state = states.get(reply.turn_id)
        if reply.turn_id in judged:
            backlog.judged += 1
        elif state is None:
            backlog.pending.append(reply)
        elif state in lifecycle.OPEN:
            backlog.in_progress.append(reply)
        elif state == Task.State.ERRORED:
            backlog.failed.append(reply)
        else:
            backlog.given_up += 1


def _states(judge: str, batch: Sequence[Reply]) -> dict[TurnId, str]:
    keys = [judge_queue.key(judge, reply.turn_id) for reply in batch]
    found = Task.objects.filter(key__in=keys).values_list("turn_id", "state")
    return {TurnId(turn_id): state for turn_id, state in found if turn_id is not None}


def estimate(config: Config, judge: JudgeConfig, replies: Sequence[Reply]) -> Estimate:
    """Return what it takes to judge these replies, reckoned from some of them."""
    step = max(len(replies) // LOOKED_AT, 1)
    asked = [_prompt_tokens(judge, reply) for reply in replies[::step]]
    mean = sum(asked) // len(asked) if asked else 0
    answer = ANSWER_TOKENS * len(judge.rubrics)
    each = call_costs.estimate(config, judge.provider, judge.model, mean, answer)
    return Estimate(
        (mean + answer) * len(replies), None if each is None else each * len(replies)
    )


def _prompt_tokens(judge: JudgeConfig, reply: Reply) -> int:
    material = persistence.material(reply.user_id, reply.turn_id)
    if material is None:
        return 0
    asked = prompt.messages(judge.rubrics, material)
    return sum(map(token_estimates.estimate_message, asked))


def add(judge: str, replies: Sequence[Reply]) -> list[Task]:
    """Put replies into the queue to be judged; return the rows that were added."""
    known = Turn.objects.filter(pk__in=[reply.turn_id for reply in replies])
    chosen = {
        turn_id: (experiment or "", origin)
        for turn_id, experiment, origin in known.values_list(
            "pk", "experiment", "origin"
        )
    }
    drafts = []
    for reply in replies:
        experiment, origin = chosen.get(reply.turn_id, ("", "chat"))
        drafts.append(
            judge_queue.draft(
                *(judge, reply.agent),
                turn_id=reply.turn_id,
                user_id=reply.user_id,
                experiment=experiment,
                reply_origin=origin,
            )
        )
    return lifecycle.add(drafts)


def retry(judge: str, replies: Sequence[Reply]) -> list[Task]:
    """Put those back that could not be judged; return their rows as they were."""
    keys = [judge_queue.key(judge, reply.turn_id) for reply in replies]
    rows = list(Task.objects.filter(key__in=keys, state=Task.State.ERRORED))
    lifecycle.replay([row.pk for row in rows])
    return rows


def waiting(judge: str, replies: Sequence[Reply]) -> list[Task]:
    """Return the rows of those that are queued or running."""
    keys = [judge_queue.key(judge, reply.turn_id) for reply in replies]
    return list(Task.objects.filter(key__in=keys, state__in=lifecycle.OPEN))


def current(tasks: Collection[Task]) -> list[Task]:
    """Return tasks as they are now; those whose users were erased are gone."""
    return list(Task.objects.filter(pk__in=[task.pk for task in tasks]))
