"""JSON forms of runs."""

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from judges.models import Score
from judges.ratings import scores
from smoke.models import SmokeMessage, SmokeRun
from telemetry.presentation.turn_serializers import format_time, to_usd


def serialize_run(row: SmokeRun) -> dict[str, Any]:
    """Return a run without its messages."""
    return {
        "id": str(row.id),
        "object": "smoke.run",
        "batch": str(row.batch),
        "repetition": row.repetition,
        "test": row.test,
        "target": row.target,
        "agent": row.agent or None,
        "user_id": str(row.user_id),
        "origin": row.origin,
        "state": row.state,
        "stopped_because": row.stopped_because or None,
        "verdict": row.verdict or None,
        "failures": row.failures,
        "error": row.error or None,
        "turns": row.turns,
        "scores": row.scores,
        "unscored": row.unscored,
        "cost_usd": to_usd(row.cost_micro_usd),
        "persona_cost_usd": to_usd(row.persona_micro_usd),
        "created_at": format_time(row.created_at),
        "started_at": None if row.started_at is None else format_time(row.started_at),
        "finished_at": None
        if row.finished_at is None
        else format_time(row.finished_at),
    }


def serialize_transcript(row: SmokeRun, start: int = 0) -> dict[str, Any]:
    """Return a run with its messages from a position on, with calls and scores."""
    messages = list(row.messages.filter(position__gte=start).order_by("position"))
    scores_by_turn: dict[uuid.UUID, list[Score]] = {}
    turn_ids = [each.turn_id for each in messages if each.turn_id is not None]
    for score in scores.scores_of_turns(turn_ids):
        scores_by_turn.setdefault(score.turn_id, []).append(score)
    return {
        **serialize_run(row),
        "transcript": [_serialize_message(each, scores_by_turn) for each in messages],
    }


def _serialize_message(
    row: SmokeMessage, scores_by_turn: Mapping[uuid.UUID, list[Score]]
) -> dict[str, Any]:
    own_scores = [] if row.turn_id is None else scores_by_turn.get(row.turn_id, [])
    return {
        "position": row.position,
        "speaker": row.speaker,
        "text": row.text,
        "agent": row.agent or None,
        "turn_id": None if row.turn_id is None else str(row.turn_id),
        "calls": row.calls,
        "cost_usd": to_usd(row.cost_micro_usd),
        "seconds": row.seconds,
        "sent_at": format_time(row.sent_at),
        "scores": [_serialize_score(score) for score in own_scores],
    }


def _serialize_score(row: Score) -> dict[str, Any]:
    return {
        "judge": row.judge,
        "criterion": row.criterion,
        "value": row.value,
        "reasoning": row.reasoning or None,
    }


def serialize_batch(runs: Sequence[SmokeRun]) -> dict[str, Any]:
    """Return a batch and its results."""
    first = runs[0]
    return {
        "object": "smoke.batch",
        "id": str(first.batch),
        "test": first.test,
        "target": first.target,
        **count_outcomes(runs),
        "scores": mean_scores(runs),
        "cost_usd": to_usd(total_cost(runs)),
        "runs": [serialize_run(row) for row in runs],
    }


def count_outcomes(runs: Sequence[SmokeRun]) -> dict[str, int]:
    """Return the number of passed, failed, aborted and open runs."""
    found = Counter(run_outcome(row) for row in runs)
    return {name: found[name] for name in ("passed", "failed", "aborted", "open")}


def run_outcome(row: SmokeRun) -> str:
    """Return the outcome of a run as one word."""
    if row.verdict:
        return row.verdict
    is_over = row.state in (SmokeRun.State.FAILED, SmokeRun.State.CANCELLED)
    return "aborted" if is_over else "open"


def mean_scores(runs: Sequence[SmokeRun]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the mean scores by agent, and by `judge.criterion`."""
    sums: dict[str, dict[str, list[float]]] = {}
    for row in runs:
        for name, found in row.scores.items():
            total = sums.setdefault(row.agent, {}).setdefault(name, [0.0, 0])
            total[0] += found["mean"] * found["count"]
            total[1] += found["count"]
    return {
        agent: {
            name: {"mean": total / count, "count": count}
            for name, (total, count) in sorted(named.items())
        }
        for agent, named in sorted(sums.items())
    }


def total_cost(runs: Sequence[SmokeRun]) -> int | None:
    """Return the cost of replies and personas; None if any part is unknown."""
    total = 0
    for row in runs:
        if row.cost_micro_usd is None or row.persona_micro_usd is None:
            return None
        total += row.cost_micro_usd + row.persona_micro_usd
    return total
