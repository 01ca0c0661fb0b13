"""`/v1/completions`: OpenAI's older endpoint, whose prompt is a user's message."""

from dataclasses import replace
from itertools import accumulate
from typing import Annotated, Any

import orjson
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Body, Router
from pydantic import Field

from access.users import request_user
from access.users.caller import caller_of
from core.errors import Invalid
from core.events import (
    Event,
    FinishReason,
    Heartbeat,
    LogProbs,
    RefusalDelta,
    TextDelta,
    TurnFinished,
    Usage,
)
from core.messages import Message
from core.reply import Reply
from gateway.openai import request_conversion, serializers, sse, turn_response
from gateway.openai.serializers import ObjectHead
from gateway.openai.sse import Encoder
from gateway.schemas import CompletionBody, Items
from turns.preparation import options
from turns.turn import TurnRequest

router = Router(tags=["Completions"])

PASSED = (
    "frequency_penalty",
    "logit_bias",
    "max_tokens",
    "presence_penalty",
    "seed",
    "stop",
    "temperature",
    "top_p",
)
REFUSED_PARAMETERS: dict[str, tuple[Any, str]] = {
    "best_of": (1, "a turn has one reply"),
    "echo": (False, "the prompt is not part of the reply"),
    "n": (1, "a turn has one reply; send several requests"),
    "suffix": ("", "chat models do not insert text"),
}
"""Parameters with the value that changes nothing, and why others are refused."""


class CompletionRequest(CompletionBody):
    """Body of `POST /v1/completions`."""

    prompt: str | Items[Any]
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None

    # Refused, unless they ask for what a turn does.
    best_of: int | None = None
    echo: bool | None = None
    suffix: str | None = None


@router.post(
    "",
    summary="Create a completion",
    openapi_extra=options.TURN_OPENAPI,
)
async def create_text_completion(
    request: HttpRequest, body: Body[CompletionRequest]
) -> HttpResponseBase:
    user_id = request_user.identify_user(request, request_user.EMPTY_QUERY, body)
    metadata = options.request_metadata(request, body.metadata)
    _refuse_unsupported(body)
    turn = TurnRequest(
        agent=body.model,
        user_id=user_id,
        messages=[Message("user", _read_prompt(body.prompt))],
        options=options.read_options(metadata),
        parameters=_parameters(body),
        extra_parameters=request_conversion.extra_parameters(body),
        stream=bool(body.stream),
        caller=caller_of(request),
    )
    head = serializers.new_head(turn.turn_id, turn.agent)
    if turn.stream:
        encoder = TextEncoder(head, include_usage=body.wants_usage)
        return await turn_response.stream(turn, encoder)
    return await turn_response.complete(turn, lambda reply: _serialize(head, reply))


def _parameters(body: CompletionRequest) -> dict[str, Any]:
    parameters = {
        name: value for name in PASSED if (value := getattr(body, name)) is not None
    }
    if body.logprobs is not None:
        # 0 asks for those of the tokens themselves.
        parameters |= {"logprobs": True, "top_logprobs": body.logprobs}
    return parameters


def _refuse_unsupported(body: CompletionRequest) -> None:
    for name, (neutral, reason) in REFUSED_PARAMETERS.items():
        if getattr(body, name) not in (None, neutral):
            raise request_conversion.unsupported(name, reason)
    request_conversion.check_stream_options(body)


def _read_prompt(prompt: str | list[Any]) -> str:
    """Return the only prompt; raises `Invalid` for several, and for tokens."""
    if isinstance(prompt, list):
        if len(prompt) != 1 or not isinstance(prompt[0], str):
            raise Invalid(
                "prompt must be one text: send several in several requests, and text "
                "instead of tokens",
                param="prompt",
            )
        prompt = prompt[0]
    if not prompt.strip():
        raise Invalid("prompt must not be empty", param="prompt")
    return prompt


def _choice(
    text: str, reason: FinishReason | None, log_probs: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"text": text, "index": 0, "logprobs": log_probs, "finish_reason": reason}


def _serialize_log_probs(
    log_probs: LogProbs | None, offset: int = 0
) -> dict[str, Any] | None:
    """Return log probabilities in this endpoint's shape.

    `offset` is the number of characters before them.
    """
    if log_probs is None:
        return None
    tokens = [*log_probs.content, *log_probs.refusal]
    lengths = (len(token["token"]) for token in tokens)
    return {
        "tokens": [token["token"] for token in tokens],
        "token_logprobs": [token["logprob"] for token in tokens],
        "top_logprobs": [
            {top["token"]: top["logprob"] for top in token.get("top_logprobs") or ()}
            for token in tokens
        ],
        "text_offset": [*accumulate(lengths, initial=offset)][:-1],
    }


def _serialize(head: ObjectHead, reply: Reply) -> dict[str, Any]:
    return {
        **head.fields("text_completion"),
        "choices": [
            _choice(
                reply.text + reply.refusal,
                reply.finish_reason,
                _serialize_log_probs(reply.log_probs),
            )
        ],
        "usage": serializers.serialize_usage(reply.usage or Usage()),
        **serializers.coulisse_fields(reply.served_by),
    }


class TextEncoder(Encoder):
    """Encodes events as chunks of a completion."""

    def __init__(self, head: ObjectHead, *, include_usage: bool) -> None:
        self.id = head.id
        self._head = head
        self._include_usage = include_usage
        self._log_probs: LogProbs | None = None
        """Of the next piece of text."""
        self._written = 0
        """The number of characters so far."""

    def show_model(self, model: str) -> None:
        self._head = replace(self._head, model=model)

    def encode(self, event: Event) -> bytes:
        match event:
            case TextDelta() | RefusalDelta():
                return self._write_text(event.text)
            case LogProbs():
                self._log_probs = event
                return b""
            case Heartbeat():
                return sse.HEARTBEAT
            case TurnFinished():
                return self._finish(event)
            case _:
                return b""

    def last_frame(self) -> bytes:
        return sse.DONE

    def _write_text(self, text: str) -> bytes:
        log_probs = _serialize_log_probs(self._log_probs, self._written)
        self._log_probs = None
        self._written += len(text)
        return self._write([_choice(text, None, log_probs)])

    def _write(self, choices: list[dict[str, Any]], **fields: Any) -> bytes:
        if self._include_usage:
            fields = {"usage": None, **fields}
        head = self._head.fields("text_completion")
        return (
            b"data: " + orjson.dumps({**head, "choices": choices, **fields}) + b"\n\n"
        )

    def _finish(self, event: TurnFinished) -> bytes:
        last = [_choice("", event.reason)]
        coulisse = serializers.coulisse_fields(event.served_by)
        if not self._include_usage or event.usage is None:
            return self._write(last, **coulisse)
        usage = serializers.serialize_usage(event.usage)
        return self._write(last) + self._write([], usage=usage, **coulisse)
