"""Parses a judge's answer, tolerating the deviations that models produce."""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.text import lenient_json, redaction
from telemetry.storage.stored_text import make_storable

MAX_SCORE = 10
MAX_REASONING = 1_000
"""Maximum characters; the prompt asks for one sentence."""
FRACTION = re.compile(
    r"\s*([-+]?\d+(?:[.,]\d+)?)\s*(?:(?:/|out of|of)\s*(\d+(?:[.,]\d+)?)\s*)?",
    re.IGNORECASE | re.ASCII,
)
WRAPPERS = ("scores", "criteria", "evaluation", "result")
"""Keys under which some models nest the object."""


class ResultUnreadable(Exception):
    """The answer lacks a score for a criterion; the message is the reason."""


@dataclass(frozen=True, slots=True)
class JudgeResult:
    score: int
    """From 0 to 10."""
    reasoning: str = ""


def parse_results(text: str, criteria: Collection[str]) -> dict[str, JudgeResult]:
    """Return the results in an answer, one for each criterion.

    Scores are rounded and clamped to 0 to 10; unknown criteria are ignored. Raises
    `ResultUnreadable` if a criterion or its score is missing, or if the answer contains
    two contradictory scores, because one may be quoted from the judged reply.
    """
    found: dict[str, JudgeResult] | None = None
    problem: str | None = None
    for value in _find_objects(text):
        try:
            results = _parse_object(value, criteria)
        except ResultUnreadable as exc:
            problem = problem or str(exc)
            continue
        if found is not None and _scores(found) != _scores(results):
            raise ResultUnreadable("it contains two different objects with scores")
        found = found or results
    if found is None:
        raise ResultUnreadable(problem or lenient_json.describe_problem(text))
    return found


def _scores(results: Mapping[str, JudgeResult]) -> dict[str, int]:
    return {name: result.score for name, result in results.items()}


def _find_objects(text: str) -> Iterator[dict[str, Any]]:
    for _, value in lenient_json.parse_candidates(text):
        if isinstance(value, dict):
            yield value


def _parse_object(
    value: Mapping[str, Any], criteria: Collection[str]
) -> dict[str, JudgeResult]:
    members = {
        normalize_name(name): member
        for name, member in _unwrap(value, criteria).items()
    }
    missing = [name for name in criteria if normalize_name(name) not in members]
    if missing:
        raise ResultUnreadable(f"it has no score for {_join_names(missing)}")
    return {
        name: _parse_result(name, members[normalize_name(name)]) for name in criteria
    }


def _unwrap(value: Mapping[str, Any], criteria: Collection[str]) -> Mapping[str, Any]:
    names = {normalize_name(name) for name in criteria}
    if not names & {normalize_name(name) for name in value}:
        for wrapper in WRAPPERS:
            inner = value.get(wrapper)
            if isinstance(inner, dict):
                return inner
    return value


def normalize_name(name: str) -> str:
    """Return a criterion's name in normalized form, to match models' variations."""
    return re.sub(r"[\s_-]+", "_", name.strip().casefold())


def _join_names(names: Collection[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _parse_result(criterion: str, value: Any) -> JudgeResult:
    reasoning = ""
    if isinstance(value, dict):
        reason = value.get("reasoning", value.get("reason", ""))
        reasoning = reason if isinstance(reason, str) else ""
        value = value.get("score")
    number = _parse_number(value)
    if number is None:
        raise ResultUnreadable(
            f"the score of '{criterion}' is not a number from 0 to {MAX_SCORE}"
        )
    # Halves round up: most models that answer 7.5 mean nearly 8.
    score = math.floor(min(max(number, 0.0), float(MAX_SCORE)) + 0.5)
    text = make_storable(" ".join(redaction.redact_own(reasoning).split()))
    return JudgeResult(score, text[:MAX_REASONING])


def _parse_number(value: Any) -> float | None:
    # In Python, bool is a subclass of int.
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    match = FRACTION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    number = float(match[1].replace(",", "."))
    if match[2] is None:
        return number
    whole = float(match[2].replace(",", "."))
    # Too many digits make the float infinite.
    is_scale = 0 < whole < math.inf
    return number / whole * MAX_SCORE if is_scale else None
