"""JSON as models write it: bare, in a Markdown fence, or amid prose."""

import re
from collections.abc import Iterator
from typing import Any

import orjson

CODE_FENCE = re.compile(r"```(?:json|JSON)?(.*?)```", re.DOTALL)


def parse_first(text: str) -> tuple[str, Any]:
    """Return the JSON in a reply as the model wrote it, and its value.

    Raises ValueError, which says what is wrong with the reply, if there is none.
    """
    for found in parse_candidates(text):
        return found
    raise ValueError(describe_problem(text))


def parse_candidates(text: str) -> Iterator[tuple[str, Any]]:
    """Yield all that may be the JSON in a reply, with its value, likeliest first.

    The whole, what is fenced, the widest object, the widest array. Of half an array
    an object in it may be all that is left, so look at what you are given.
    """
    for candidate in _candidates(text):
        try:
            yield candidate, orjson.loads(candidate)
        except orjson.JSONDecodeError:
            continue


def describe_problem(text: str) -> str:
    """Return what to tell a model whose reply has no JSON in it."""
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
