"""Parse JSON in model output: plain, in a Markdown fence, or within prose."""

import re
from collections.abc import Iterator
from typing import Any

import orjson

CODE_FENCE = re.compile(r"```(?:json|JSON)?(.*?)```", re.DOTALL)


def parse_first(text: str) -> tuple[str, Any]:
    """Return the JSON text in a reply, and its value.

    Raises ValueError with the problem if the reply has none.
    """
    for found in parse_candidates(text):
        return found
    raise ValueError(describe_problem(text))


def parse_candidates(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the JSON candidates in a reply with their values, likeliest first.

    The order is: the whole reply, fenced blocks, the widest object, the widest array.
    From a truncated array only an inner object may parse, so check the value.
    """
    for candidate in _candidates(text):
        try:
            yield candidate, orjson.loads(candidate)
        except orjson.JSONDecodeError:
            continue


def describe_problem(text: str) -> str:
    """Return the message for a model whose reply has no JSON."""
    try:
        orjson.loads(text.strip())
    except orjson.JSONDecodeError as exc:
        return f"the reply is not valid JSON: {exc}"
    return "the reply is valid JSON"


def _candidates(text: str) -> Iterator[str]:
    yield text.strip()
    yield from (match.strip() for match in CODE_FENCE.findall(text))
    for opening, closing in ("{}", "[]"):
        if opening in text:
            yield text[text.find(opening) : text.rfind(closing) + 1]
