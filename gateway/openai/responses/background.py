"""Background responses: the turn runs as a task, whose id the response has."""

import time
from typing import Any

from config import live
from core.errors import Invalid
from core.ids import TurnId
from gateway.openai.responses import request_echo
from gateway.openai.responses.response_object import ResponseHead
from gateway.openai.responses.schemas import ResponseRequest
from memory.recall import query_embedding
from turns.agent_tasks import task_requests, turn_payload
from turns.agent_tasks.task_requests import MAX_PROMPT_LENGTH, TaskRequest
from turns.preparation import routing, turn_builder
from turns.turn import TurnRequest


async def start(body: ResponseRequest, turn: TurnRequest) -> dict[str, Any]:
    """Enqueue a turn, and return its response.

    Raises `Invalid` for a request that cannot run in the background.
    """
    if not body.is_stored:
        raise Invalid("a background response needs 'store': true", param="store")
    await _check_history(turn)
    text = query_embedding.last_user_text(turn.messages)
    task_request = TaskRequest(
        turn.agent,
        text.replace("\0", "\ufffd")[:MAX_PROMPT_LENGTH],
        "api",
        metadata=body.metadata or {},
        turn=turn_payload.to_payload(turn),
    )
    task_id, _ = await task_requests.submit(
        live.current(), turn.caller, turn.user_id, task_request
    )
    created_at = int(time.time())
    head = ResponseHead(
        TurnId(task_id), body.model, request_echo.echo(body), created_at=created_at
    )
    return head.to_response("queued")


async def _check_history(turn: TurnRequest) -> None:
    """Refuse a turn that would store no reply; another check is about incognito."""
    config = live.current()
    route = await routing.choose_agent(config, turn.agent, turn.user_id)
    mode = turn_builder.choose_history_mode(config, turn, route.agent)
    if mode == "none" and not turn.options.is_incognito:
        raise Invalid(
            "a background response is stored, which the history 'none' excludes: send "
            "metadata.history 'auto', or leave 'background' out",
            param="metadata.history",
        )
