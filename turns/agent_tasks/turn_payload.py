"""A turn request as the payload of a task, for turns that are more than a prompt."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from core import ids
from core.messages import Message
from memory.transcript import message_rows
from turns.turn import TurnRequest

KEY = "turn"


def to_payload(request: TurnRequest) -> str:
    """Return the messages, tools and parameters of a request, as JSON."""
    fields = {
        "messages": list(map(message_rows.to_columns, request.messages)),
        "parameters": dict(request.parameters),
        "extra_parameters": dict(request.extra_parameters),
        "tools": list(request.tools),
        "response_format": request.response_format,
        "stored_fields": dict(request.stored_fields),
        "thread": request.options.thread,
        "history": request.options.history,
        "continues": request.options.continues,
    }
    # As text: PostgreSQL stores no NUL characters in its own JSON.
    return orjson.dumps(fields).decode()


def apply(payload: Mapping[str, Any], request: TurnRequest) -> TurnRequest:
    """Return a task's request with the contents of `to_payload`, if it has them."""
    if KEY not in payload:
        return request
    fields = orjson.loads(payload[KEY])
    return replace(
        request,
        messages=_parse_messages(fields),
        parameters=fields["parameters"],
        extra_parameters=fields["extra_parameters"],
        tools=fields["tools"],
        response_format=fields["response_format"],
        stored_fields=fields["stored_fields"],
        options=replace(
            request.options,
            thread=fields["thread"],
            history=fields["history"],
            continues=ids.parse_turn_id(fields["continues"] or ""),
        ),
    )


def read_messages(payload: Mapping[str, Any]) -> list[Message]:
    """Return the messages in a task's payload, without instructions."""
    messages = _parse_messages(orjson.loads(payload[KEY]))
    return [message for message in messages if message.role != "system"]


def read_stored_fields(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the request in a task's payload, for its client."""
    fields: dict[str, Any] = orjson.loads(payload[KEY])["stored_fields"]
    return fields


def _parse_messages(fields: Mapping[str, Any]) -> list[Message]:
    return [message_rows.message_from_row(*row) for row in fields["messages"]]
