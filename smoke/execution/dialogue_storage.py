"""What a conversation stores while it runs: each message, and its end."""

import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

from django.db import transaction
from django.db.models import F, QuerySet

from config import live
from core import trace
from core.ids import TurnId, UserId
from core.reply import Reply
from core.text import redaction
from core.trace import Call, ModelCall
from smoke.config import SmokeTestConfig
from smoke.errors import RunClosed
from smoke.evaluation import tool_call_log
from smoke.execution.dialogue import Dialogue, Speaker, Stop, Utterance
from smoke.models import SmokeMessage, SmokeRun
from smoke.models.run_queries import OPEN
from tasks.errors import LeaseLost
from telemetry.config import TELEMETRY
from telemetry.storage import stored_text


def begin_run(run_id: uuid.UUID, attempt: int) -> Dialogue:
    """Reserve a run for this attempt of its task; return its state so far.

    Raises `RunClosed` for a run that may no longer start.
    """
    now = datetime.now(UTC)
    free = SmokeRun.objects.filter(pk=run_id, state__in=OPEN, attempt__lt=attempt)
    if not free.update(state=SmokeRun.State.RUNNING, attempt=attempt):
        raise RunClosed
    SmokeRun.objects.filter(pk=run_id, started_at=None).update(started_at=now)
    run = SmokeRun.objects.get(pk=run_id)
    messages = run.messages.order_by("position").values_list("speaker", "text")
    return Dialogue(
        run_id,
        attempt,
        UserId(run.user_id),
        SmokeTestConfig.model_validate(run.settings),
        run.target,
        [Utterance(cast(Speaker, speaker), text) for speaker, text in messages],
    )


def _claimed_run(dialogue: Dialogue) -> QuerySet[SmokeRun]:
    return SmokeRun.objects.filter(
        pk=dialogue.run_id, state=SmokeRun.State.RUNNING, attempt=dialogue.attempt
    )


def store_persona_message(
    dialogue: Dialogue, text: str, call: ModelCall | None
) -> None:
    """Store a persona's message; raises `LeaseLost` if the run is lost."""
    calls = [] if call is None else [call]
    with transaction.atomic():
        cost = trace.total_cost([*calls])
        if not _claimed_run(dialogue).update(
            persona_micro_usd=_add_cost("persona_micro_usd", cost)
        ):
            raise LeaseLost
        seconds = call.seconds if call else 0.0
        _store_message(dialogue, "persona", text, calls, seconds=seconds)


def store_agent_reply(
    dialogue: Dialogue,
    turn_id: TurnId,
    started: float,
    reply: Reply,
    calls: Sequence[Call],
) -> None:
    """Store an agent's reply, in its turn's transaction; raises the same errors.

    `started` is the turn's start on the clock of `time.perf_counter`.
    """
    agent = next(call.agent for call in calls if isinstance(call, ModelCall))
    cost = trace.total_cost([*calls])
    is_stored = _claimed_run(dialogue).update(
        agent=agent,
        turns=F("turns") + 1,
        cost_micro_usd=_add_cost("cost_micro_usd", cost),
    )
    if not is_stored:
        raise LeaseLost
    _store_message(
        dialogue,
        "assistant",
        reply.text or reply.refusal,
        calls,
        seconds=time.perf_counter() - started,
        agent=agent,
        turn_id=turn_id,
    )


def _add_cost(column: str, cost: int | None) -> Any:
    # An unknown cost makes the sum unknown.
    return None if cost is None else F(column) + cost


def _store_message(
    dialogue: Dialogue,
    speaker: Speaker,
    text: str,
    calls: Sequence[Call],
    *,
    seconds: float | None,
    **fields: Any,
) -> None:
    max_bytes = live.current().get(TELEMETRY).sqlite.max_payload_bytes
    SmokeMessage.objects.create(
        run_id=dialogue.run_id,
        position=len(dialogue.utterances),
        speaker=speaker,
        text=stored_text.make_storable(redaction.redact_own(text)),
        calls=tool_call_log.serialize_calls(calls, max_bytes),
        cost_micro_usd=trace.total_cost([*calls]),
        seconds=seconds or 0.0,
        sent_at=datetime.now(UTC),
        **fields,
    )


def end_dialogue(dialogue: Dialogue, stop: Stop) -> None:
    """Store that a conversation ended; the run then waits for its scores.

    Runs in the transaction that completes its task, and raises the same errors.
    """
    now = datetime.now(UTC)
    state = SmokeRun.State.JUDGING
    claimed = _claimed_run(dialogue)
    if not claimed.update(state=state, stopped_because=stop, ended_at=now):
        raise LeaseLost
    SmokeRun.objects.get(pk=dialogue.run_id).close_if_judged(now)


def fail_run(dialogue: Dialogue, stop: Stop, error: str) -> None:
    """Close an interrupted run."""
    now = datetime.now(UTC)
    _claimed_run(dialogue).update(
        state=SmokeRun.State.FAILED,
        stopped_because=stop,
        error=stored_text.make_storable(error),
        ended_at=now,
        finished_at=now,
    )
