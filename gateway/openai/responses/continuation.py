"""The conversation that a request continues: after a response, or of a thread."""

from dataclasses import replace

from django.http import HttpRequest

from core.errors import Conflict, Invalid
from core.ids import UserId
from database import database_executor
from gateway.openai.errors import (
    ConversationUnknown,
    PreviousResponseUnknown,
    ResponseUnknown,
)
from gateway.openai.responses import request_conversion, stored_responses
from gateway.openai.responses.schemas import ResponseRequest
from memory.transcript import conversations
from turns.preparation import options as turn_options
from turns.preparation.options import TurnOptions


class PreviousResponsePending(Conflict):
    """The previous response has no reply yet: wait until it is completed."""

    code = "previous_response_not_completed"

    def __init__(self) -> None:
        super().__init__(param="previous_response_id")


class PreviousResponseWithoutReply(Invalid):
    """The previous response ended without a reply, so it cannot be continued: send \
its input again, after the response before it."""

    code = "previous_response_without_reply"

    def __init__(self) -> None:
        super().__init__(param="previous_response_id")


async def read_options(
    request: HttpRequest, body: ResponseRequest, user_id: UserId
) -> TurnOptions:
    """Return the options of a request, with the conversation that it continues.

    Raises `PreviousResponseUnknown`, `PreviousResponsePending`, `ConversationUnknown`,
    and `Invalid` for a response without a reply and for metadata that contradicts.
    """
    options = turn_options.read_options(
        turn_options.request_metadata(request, body.metadata)
    )
    param = request_conversion.continuation_param(body)
    if param is None:
        return options
    _check_metadata(options, param)
    if body.previous_response_id is not None:
        return await _after_response(options, user_id, body.previous_response_id)
    name = body.conversation or ""
    if options.thread not in ("", name):
        raise Invalid(
            "'conversation' and metadata.thread_id name two conversations: send one",
            param="conversation",
        )
    if await database_executor.run(conversations.find, user_id, name) is None:
        raise ConversationUnknown(name)
    return replace(options, thread=name, history="server")


def _check_metadata(options: TurnOptions, param: str) -> None:
    if options.is_incognito or options.history in ("client", "none"):
        key = "memory" if options.is_incognito else "history"
        raise Invalid(
            f"metadata.{key} excludes stored messages, which '{param}' names: "
            "leave one of them out",
            param=f"metadata.{key}",
        )


async def _after_response(
    options: TurnOptions, user_id: UserId, response_id: str
) -> TurnOptions:
    try:
        previous = await stored_responses.read(user_id, response_id)
    except ResponseUnknown as exc:
        raise PreviousResponseUnknown(response_id) from exc
    if previous.is_open:
        raise PreviousResponsePending
    if previous.turn is None:
        raise PreviousResponseWithoutReply
    if options.thread not in ("", previous.turn.thread):
        raise Invalid(
            "'previous_response_id' is of another thread than the one that the request "
            "names: send one of them",
            param="previous_response_id",
        )
    return replace(
        options,
        thread=previous.turn.thread,
        continues=previous.turn.turn_id,
        history="server",
    )
