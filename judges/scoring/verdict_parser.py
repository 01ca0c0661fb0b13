"""What a judge's model answers, read as models write: never quite as they were told."""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.text import lenient_json, redaction
from telemetry.storage.stored_text import storable

HIGHEST = 10
MAX_REASONING = 1_000
"""Characters; one sentence was asked for."""
FRACTION = re.compile(
    r"\s*([-+]?\d+(?:[.,]\d+)?)\s*(?:(?:/|out of|of)\s*(\d+(?:[.,]\d+)?)\s*)?",
    re.IGNORECASE | re.ASCII,
)
WRAPPERS = ("scores", "criteria", "evaluation", "result")
"""Under what some models put the object they were asked for."""


class Unreadable(Exception):
    """The answer holds no score for each criterion; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge says by one criterion."""

    score: int
    """From 0 to 10."""
    reasoning: str = ""


def read(text: str, criteria: Collection[str]) -> dict[str, Verdict]:
    """Return the verdicts in an answer, one for each criterion.

    Scores are rounded and kept within 0 and 10; criteria nobody asked for are passed
    over. Raises `Unreadable` where one is missing or has no score, and where the
    answer holds two that contradict each other: the one may be quoted from the reply
    that is judged.
    """
    found: dict[str, Verdict] | None = None
    problem: str | None = None
    for value in _objects(text):
        try:
            verdicts = _verdicts(value, criteria)
        except Unreadable as exc:
            problem = problem or str(exc)
            continue
        if found is not None and _scores(found) != _scores(verdicts):
            raise Unreadable("it holds two different objects with scores")
        found = found or verdicts
    if found is None:
        raise Unreadable(problem or lenient_json.problem(text))
    return found


def _scores(verdicts: Mapping[str, Verdict]) -> dict[str, int]:
    return {name: verdict.score for name, verdict in verdicts.items()}


def _objects(text: str) -> Iterator[dict[str, Any]]:
    for _, value in lenient_json.readings(text):
        if isinstance(value, dict):
            yield value


def _verdicts(
    value: Mapping[str, Any], criteria: Collection[str]
) -> dict[str, Verdict]:
    known = {plain(name): given for name, given in _unwrapped(value, criteria).items()}
    missing = [name for name in criteria if plain(name) not in known]
    if missing:
        raise Unreadable(f"it has no score for {_listed(missing)}")
    return {name: _verdict(name, known[plain(name)]) for name in criteria}


def _unwrapped(
    value: Mapping[str, Any], criteria: Collection[str]
) -> Mapping[str, Any]:
    names = {plain(name) for name in criteria}
    if not names & {plain(name) for name in value}:
        for wrapper in WRAPPERS:
            inner = value.get(wrapper)
            if isinstance(inner, dict):
                return inner
    return value


def plain(name: str) -> str:
    """Return a criterion's name without what models get wrong of it."""
    return re.sub(r"[\s_-]+", "_", name.strip().casefold())


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _verdict(criterion: str, given: Any) -> Verdict:
    reasoning = ""
    if isinstance(given, dict):
        said = given.get("reasoning", given.get("reason", ""))
        reasoning = said if isinstance(said, str) else ""
        given = given.get("score")
    number = _number(given)
    if number is None:
        raise Unreadable(f"the score of '{criterion}' is no number from 0 to {HIGHEST}")
    # Halves go up: 7.5 is nearer to 8 than most who write it mean to be to 7.
    score = math.floor(min(max(number, 0.0), float(HIGHEST)) + 0.5)
    said = storable(" ".join(redaction.own(reasoning).split()))
    return Verdict(score, said[:MAX_REASONING])


def _number(given: Any) -> float | None:
    # To Python, true is a number.
    if isinstance(given, bool):
        return None
    if isinstance(given, int | float):
        return float(given)
    match = FRACTION.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        return None
    number = float(match[1].replace(",", "."))
    if match[2] is None:
        return number
    whole = float(match[2].replace(",", "."))
    # Too many digits for a float make it infinite.
    is_scale = 0 < whole < math.inf
    return number / whole * HIGHEST if is_scale else None
