"""Replies that must be JSON: taught to the model, checked, and repaired.

Source: "Structured outputs" of the reference. A model that speaks freely is held to
the format by instruction; what it says is checked here whatever the provider promises.
"""

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import orjson

from core.events import Event, Finished, Usage
from core.messages import Message
from turns import usage
from turns.errors import ReplyInvalid, SchemaInvalid
from turns.reply import Reply

MAX_REPAIRS = 2

FENCED = re.compile(r"```(?:json|JSON)?\s*\n?(.*?)```", re.DOTALL)

Ask = Callable[[Sequence[Message]], AsyncGenerator[Event]]
"""Call the model with these messages."""


class Mismatch(Exception):
    """The reply is not what the format asks for; the message says why."""


@dataclass(frozen=True)
class Format:
    """The shape a reply must have."""

    instruction: str
    """What the model is told."""
    validator: Any = None
    """A `jsonschema_rs` validator; None takes any JSON object."""

    def clean(self, text: str) -> str:
        """Return the JSON in a reply and nothing else; raises `Mismatch` if it is not.

        As the model wrote it: to write it anew would round its long numbers.
        """
        found, value = parse(text)
        if self.validator is None:
            if not isinstance(value, dict):
                raise Mismatch("the reply is JSON but not an object")
        else:
            error = next(self.validator.iter_errors(value), None)
            if error is not None:
                raise Mismatch(describe(error))
        return found


def describe(error: jsonschema_rs.ValidationError) -> str:
    """Return what is wrong and where, in one line."""
    path = "/".join(str(step) for step in error.instance_path)
    return f"{error.message} at '{path}'" if path else error.message


def parse(text: str) -> tuple[str, Any]:
    """Return the JSON in a reply, and its value: bare, fenced or amid prose."""
    candidates = [text.strip()]
    candidates += [match.strip() for match in FENCED.findall(text)]
    candidates += [
        text[text.find(opening) : text.rfind(closing) + 1]
        for opening, closing in ("{}", "[]")
        if opening in text
    ]
    problem = ""
    for candidate in candidates:
        try:
            return candidate, orjson.loads(candidate)
        except orjson.JSONDecodeError as exc:
            problem = problem or str(exc)
    raise Mismatch(f"the reply is not valid JSON: {problem}")


def json_object() -> Format:
    """Return the format of `{"type": "json_object"}`."""
    return Format(
        "Reply with a single valid JSON object and nothing else: no Markdown fences, "
        "no text before or after it."
    )


def json_schema(name: str, schema: Any, description: str | None) -> Format:
    """Return the format of `{"type": "json_schema"}`.

    Raises `SchemaInvalid` when the schema is malformed or refers to another document:
    no reference is ever fetched.
    """
    try:
        validator = jsonschema_rs.validator_for(schema, offline=True)
    except (jsonschema_rs.ValidationError, ValueError, TypeError) as exc:
        reason = exc.message if hasattr(exc, "message") else str(exc)
        raise SchemaInvalid(
            f"response_format.json_schema.schema is not a valid JSON Schema: {reason}"
        ) from exc
    about = f" ({description.strip()})" if description else ""
    return Format(
        f"Reply with a single JSON value called '{name}'{about} that conforms to the "
        "JSON Schema below, and nothing else: no Markdown fences, no text before or "
        f"after it.\n\n{orjson.dumps(schema).decode()}",
        validator,
    )


async def checked(
    events: AsyncGenerator[Event], format: Format
) -> AsyncGenerator[Event]:
    """Pass a stream on as it comes and check the whole reply at its end.

    What was streamed cannot be taken back, so a mismatch raises `ReplyInvalid` instead
    of asking again.
    """
    reply = Reply()
    async with aclosing(events):
        async for event in events:
            reply.add(event)
            if isinstance(event, Finished) and must_match(reply):
                try:
                    format.clean(reply.text)
                except Mismatch as exc:
                    raise _failed(exc, reply) from exc
            yield event


async def repaired(
    ask: Ask, messages: Sequence[Message], format: Format
) -> AsyncGenerator[Event]:
    """Ask until the reply matches, showing the model its error, at most twice more.

    Yields the events of the reply that matches, its text cleaned, its usage the sum of
    all attempts; raises `ReplyInvalid` when none does.
    """
    spent = Usage()
    repairs = 0
    while True:
        reply = Reply()
        async with aclosing(ask(messages)) as events:
            async for event in events:
                reply.add(event)
        spent += usage.of(messages, reply)
        try:
            text = format.clean(reply.text) if must_match(reply) else reply.text
        except Mismatch as exc:
            if repairs == MAX_REPAIRS or reply.finish_reason == "length":
                raise _failed(exc, reply) from exc
            repairs += 1
            messages = [*messages, *_correction(reply.text, exc)]
            continue
        for event in reply.events(text=text, usage=spent):
            yield event
        return


def must_match(reply: Reply) -> bool:
    """Whether a reply is held to the format: not a tool call, not a refusal."""
    return not (
        reply.tool_calls or reply.refusal or reply.finish_reason == "content_filter"
    )


def _correction(text: str, mismatch: Mismatch) -> list[Message]:
    return [
        Message("assistant", text),
        Message(
            "user",
            f"Your reply did not match the required format: {mismatch}. Reply again "
            "with only the corrected JSON.",
        ),
    ]


def _failed(mismatch: Mismatch, reply: Reply) -> ReplyInvalid:
    if reply.finish_reason == "length":
        return ReplyInvalid(
            "response did not match the schema: it was cut off by the token limit; "
            "raise max_tokens"
        )
    return ReplyInvalid(f"response did not match the schema: {mismatch}")
