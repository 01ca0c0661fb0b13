"""Replies that must be JSON: instructions for the model, check and repair.

Source: "Structured outputs" of the reference. A model without native support receives
the format as an instruction; every reply is checked here, even if the provider
guarantees the format.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from core import token_usage
from core.events import Event, TurnFinished, Usage
from core.messages import Message
from core.reply import Reply
from core.text import lenient_json
from core.text.sanitization import escape_and_truncate_middle
from turns.errors import ReplyInvalid
from turns.structured_output import reply_schema
from turns.structured_output.reply_schema import ReplySchema

MAX_REPAIRS = 2

Ask = Callable[[Sequence[Message]], AsyncGenerator[Event]]
"""Call the model with these messages."""


class Mismatch(Exception):
    """The reply does not match the format; the message is the reason."""


@dataclass(frozen=True)
class ReplyFormat:
    instruction: str
    """The instruction for the model."""
    schema: ReplySchema | None = None
    """The JSON Schema; None accepts any JSON object."""

    async def compile(self) -> None:
        """Compile the schema, if there is one; raises `SchemaInvalid`."""
        if self.schema is not None:
            await self.schema.compile()

    async def extract_json(self, text: str) -> str:
        """Return only the JSON of a reply; raises `Mismatch` if it does not match.

        The model's text is kept, because serializing it again would round long numbers.
        """
        json_text, value = parse_json(text)
        error = await self._first_error(json_text, value)
        if error is not None:
            raise Mismatch(error)
        return json_text

    async def _first_error(self, text: str, value: Any) -> str | None:
        if self.schema is not None:
            return await self.schema.first_error(text, value)
        is_object = isinstance(value, dict)
        return None if is_object else "the reply is JSON but not an object"


def parse_json(text: str) -> tuple[str, Any]:
    """Return the JSON in a reply and its value. It may be bare, fenced or in prose."""
    try:
        return lenient_json.parse_first(text)
    except ValueError as exc:
        raise Mismatch(str(exc)) from exc


def json_object() -> ReplyFormat:
    """Return the format of `{"type": "json_object"}`."""
    return ReplyFormat(
        "Reply with a single valid JSON object and nothing else: no Markdown fences, "
        "no text before or after it."
    )


def json_schema(name: str, schema: Any, description: str | None) -> ReplyFormat:
    """Return the format of `{"type": "json_schema"}`.

    Raises `SchemaInvalid` for a schema beyond the limits. A schema that is malformed or
    refers to another document is refused when it is compiled.
    """
    reply = reply_schema.from_client(schema)
    about = f" ({description.strip()})" if description else ""
    return ReplyFormat(
        f"Reply with a single JSON value called '{name}'{about} that conforms to the "
        "JSON Schema below, and nothing else: no Markdown fences, no text before or "
        f"after it.\n\n{reply.json.decode()}",
        reply,
    )


def from_response_format(
    response_format: Mapping[str, Any] | None,
) -> ReplyFormat | None:
    """Return the format of OpenAI's `response_format`; None for free text."""
    if response_format is None:
        return None
    definition = response_format.get("json_schema")
    if definition is None:
        return json_object()
    return json_schema(
        definition["name"], definition["schema"], definition.get("description")
    )


async def check_stream(
    events: AsyncGenerator[Event], format: ReplyFormat
) -> AsyncGenerator[Event]:
    """Forward a stream as it arrives, and check the whole reply at its end.

    Streamed text cannot be taken back, so a mismatch raises `ReplyInvalid` without a
    retry.
    """
    reply = Reply()
    async with aclosing(events):
        async for event in events:
            reply.add(event)
            if isinstance(event, TurnFinished) and _needs_check(reply):
                try:
                    await format.extract_json(reply.text)
                except Mismatch as exc:
                    raise _invalid_reply(exc, reply) from exc
            yield event


async def repair_reply(
    ask: Ask, messages: Sequence[Message], format: ReplyFormat
) -> AsyncGenerator[Event]:
    """Retry at most twice until the reply matches; each retry includes the error.

    Yields the events of the matching reply, with its JSON alone as text and the summed
    usage of all attempts; raises `ReplyInvalid` if none matches.
    """
    usage = Usage()
    repairs = 0
    while True:
        reply = Reply()
        async with aclosing(ask(messages)) as events:
            async for event in events:
                reply.add(event)
        usage += token_usage.count_usage(messages, reply)
        try:
            text = (
                await format.extract_json(reply.text)
                if _needs_check(reply)
                else reply.text
            )
        except Mismatch as exc:
            if repairs == MAX_REPAIRS or reply.finish_reason == "length":
                raise _invalid_reply(exc, reply) from exc
            repairs += 1
            messages = [*messages, *_correction_messages(reply.text, exc)]
            continue
        for event in reply.replay_events(text=text, usage=usage):
            yield event
        return


def _needs_check(reply: Reply) -> bool:
    """Whether the format applies to a reply: not to tool calls or refusals."""
    return not (
        reply.tool_calls or reply.refusal or reply.finish_reason == "content_filter"
    )


def _correction_messages(text: str, mismatch: Mismatch) -> list[Message]:
    return [
        Message("assistant", text),
        Message(
            "user",
            f"Your reply did not match the required format: {mismatch}. Reply again "
            "with only the corrected JSON.",
        ),
    ]


def _invalid_reply(mismatch: Mismatch, reply: Reply) -> ReplyInvalid:
    if reply.finish_reason == "length":
        return ReplyInvalid(
            "response did not match the schema: it was cut off by the token limit; "
            "raise max_tokens"
        )
    # The error quotes the client's schema and the reply; the model received more of it.
    reason = escape_and_truncate_middle(str(mismatch))
    return ReplyInvalid(f"response did not match the schema: {reason}")
