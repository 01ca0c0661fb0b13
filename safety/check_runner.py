"""Runs a check of a whole text: by a rule, by moderation or by a control model."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import orjson

from core import trace
from core.errors import CoulisseError, recorded_text
from core.messages import Message
from core.trace import ModelCall, TracedToolCall
from safety.config import NO_LEVEL, SafetyCheck
from safety.detection import control_model, moderation, rules
from safety.detection.verdict import Verdict
from safety.errors import CheckFailed
from safety.finding import Finding
from safety.input_messages import CheckedMessages
from safety.turn_safety import TurnSafety

MAX_CHARS = 400_000
"""Maximum characters of a checked text. A longer one fails the check."""
MAX_INLINE_CHARS = 8_000
"""Longer texts are checked by rules in a thread, beside other requests."""
EXCERPT_CHARS = 300
MARGIN_CHARS = 100
"""Characters of an excerpt before what was found."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


async def run_rule(rule: Callable[[], T], chars: int) -> T:
    """Return the result of a rule for a text of this length."""
    return rule() if chars <= MAX_INLINE_CHARS else await asyncio.to_thread(rule)


async def run_checks(
    safety: TurnSafety, checks: Sequence[SafetyCheck], messages: CheckedMessages
) -> None:
    """Run checks at the same time, and add what they find to `safety`.

    A check that fails is logged, and is a finding without a level.
    """

    async def run(check: SafetyCheck) -> None:
        finding = await _run_check(safety, check, *messages.of(check))
        if finding is not None:
            safety.add(finding)
        safety.ended.add(check.name)

    await asyncio.gather(*map(run, checks))


async def _run_check(
    safety: TurnSafety, check: SafetyCheck, messages: Sequence[Message], earlier: int
) -> Finding | None:
    """Run a check of messages, the first `earlier` of which are context."""
    text = "\n\n".join(filter(None, (each.text for each in messages[earlier:])))
    if not text.strip() and check.by.json_schema is None:
        return None
    arguments = orjson.dumps({"when": check.when, "by": check.by.kind}).decode()
    entry = TracedToolCall(check.name, "safety", arguments)
    safety.record.append(entry)
    try:
        async with asyncio.timeout(check.timeout_seconds):
            verdict = await _detect(safety, check, messages, earlier, text, entry)
    except Exception as exc:
        return _failure(check, entry, exc)
    # The reason is for the incident, which fewer people may read than turns.
    entry.end(result=verdict.level or NO_LEVEL)
    if not verdict.level:
        return None
    first = max(verdict.start - MARGIN_CHARS, 0)
    excerpt = text[first : max(verdict.start, first) + EXCERPT_CHARS]
    reason, excerpt = (
        safety.mask_text(each, check.when) for each in (verdict.reason, excerpt)
    )
    if check.by.pii is not None:
        excerpt = ""
    return Finding(check, verdict.level, reason, excerpt)


def _failure(check: SafetyCheck, entry: TracedToolCall, exc: Exception) -> Finding:
    """Return the finding of a check that failed, for whatever reason."""
    error = recorded_text(exc)
    if isinstance(exc, TimeoutError):
        error = f"no answer within {check.timeout_seconds:g} seconds"
    entry.end(error=error)
    for call in trace.iter_model_calls(entry.calls):
        call.end(error=error)
    is_expected = isinstance(exc, CoulisseError | TimeoutError)
    logger.warning(
        "safety check '%s' failed: %s",
        check.name,
        error,
        exc_info=None if is_expected else exc,
    )
    return Finding(check, "", error)


async def _detect(
    safety: TurnSafety,
    check: SafetyCheck,
    messages: Sequence[Message],
    earlier: int,
    text: str,
    entry: TracedToolCall,
) -> Verdict:
    if len(text) > MAX_CHARS:
        raise CheckFailed(f"the text has more than {MAX_CHARS} characters")
    detector = check.by
    if detector.moderation is not None:
        return await moderation.moderate(
            safety.config, check, detector.moderation, text
        )
    if detector.model is not None:
        call = ModelCall(
            safety.turn.agent, detector.model.provider, detector.model.model
        )
        entry.calls.append(call)
        verdict = await control_model.ask(
            safety.config,
            check,
            detector.model,
            messages,
            earlier=earlier,
            user=safety.turn.user_id.hex,
            call=call,
        )
        call.end()
        return verdict
    return await run_rule(partial(_apply_rule, check, text), len(text))


def _apply_rule(check: SafetyCheck, text: str) -> Verdict:
    matches = rules.find_matches(check, text)
    labels = dict.fromkeys(match.label for match in matches)
    worst = max(
        matches, key=lambda match: check.severity(check.level_of(match)), default=None
    )
    if worst is None:
        return Verdict("", "")
    return Verdict(check.level_of(worst), ", ".join(labels), worst.start)
