"""Runs a check of a whole text: by a rule, by moderation or by a control model."""

import asyncio
import logging
from collections.abc import Sequence

import orjson

from core import trace
from core.errors import CoulisseError, recorded_text
from core.messages import Message
from core.trace import ModelCall, TracedToolCall
from safety.config import NO_LEVEL, SafetyCheck
from safety.detection import control_model, moderation, rules
from safety.detection.verdict import Verdict
from safety.errors import CheckFailed
from safety.turn_safety import Finding, TurnSafety

MAX_CHARS = 400_000
"""Maximum characters of a checked text. A longer one fails the check."""
MAX_INLINE_CHARS = 8_000
"""Longer texts are checked by rules in a thread, beside other requests."""
EXCERPT_CHARS = 300

logger = logging.getLogger(__name__)


async def run_checks(
    safety: TurnSafety,
    checks: Sequence[SafetyCheck],
    messages: Sequence[Message],
    *,
    earlier: int,
) -> None:
    """Run checks at the same time, and add what they find to `safety`.

    The first `earlier` messages are context. A check that fails is logged, and is a
    finding without a level.
    """
    found = await asyncio.gather(
        *(_run_check(safety, check, messages, earlier) for check in checks)
    )
    for finding in filter(None, found):
        safety.add(finding)


async def _run_check(
    safety: TurnSafety, check: SafetyCheck, messages: Sequence[Message], earlier: int
) -> Finding | None:
    text = "\n\n".join(filter(None, (each.text for each in messages[earlier:])))
    if not text.strip() and check.by.json_schema is None:
        return None
    arguments = orjson.dumps({"when": check.when, "by": check.by.kind}).decode()
    entry = TracedToolCall(check.name, "safety", arguments)
    safety.record.append(entry)
    try:
        async with asyncio.timeout(check.timeout_seconds):
            verdict = await _detect(safety, check, messages, earlier, text, entry)
    except (CoulisseError, TimeoutError) as exc:
        error = recorded_text(exc)
        if isinstance(exc, TimeoutError):
            error = f"no answer within {check.timeout_seconds:g} seconds"
        entry.end(error=error)
        for call in trace.iter_model_calls(entry.calls):
            call.end(error=error)
        logger.warning("safety check '%s' failed: %s", check.name, error)
        return Finding(check, "", error)
    # The reason is for the incident, which fewer people may read than turns.
    entry.end(result=verdict.level or NO_LEVEL)
    if not verdict.level:
        return None
    return Finding(check, verdict.level, verdict.reason, _excerpt(check, text))


def _excerpt(check: SafetyCheck, text: str) -> str:
    """Return the beginning of the text, except for personal data."""
    return "" if check.by.pii is not None else text[:EXCERPT_CHARS]


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
    if len(text) > MAX_INLINE_CHARS:
        return await asyncio.to_thread(_apply_rule, check, text)
    return _apply_rule(check, text)


def _apply_rule(check: SafetyCheck, text: str) -> Verdict:
    matches = rules.find_matches(check, text)
    levels = [match.level or check.highest for match in matches]
    labels = dict.fromkeys(match.label for match in matches)
    return Verdict(max(levels, key=check.severity, default=""), ", ".join(labels))
