"""The session of a conversation by voice: composed here, held by browser and provider.

It begins as a turn does: with the instructions, the memory and the tools of the agent.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agents.realtime_config import RealtimeConfig
from core.messages import Message
from core.text.sanitization import escape_and_truncate
from core.tools import to_openai_tool
from providers import realtime
from providers.config import PROVIDERS, ProviderConfig
from providers.realtime import ClientSecret, RealtimeUnavailable
from turns.preparation import prompt
from turns.turn import Turn, TurnRequest
from turns.voice import recording

SPOKEN = Message(
    "system",
    "This conversation is spoken. Answer briefly, in whole sentences, without lists or "
    "formatting.",
)


async def create(
    request: TurnRequest, session: Mapping[str, Any], *, lifetime_seconds: int
) -> tuple[ClientSecret, Mapping[str, str]]:
    """Create a key for a session with an agent; return the headers of the response too.

    `session` has what the client chooses, in OpenAI's format. The messages of the
    request are instructions of the client, which follow those of the agent. Raises
    `RealtimeUnavailable`, the errors of `prepare` and those of the provider.
    """
    async with recording.open_turn(request) as turn:
        settings = turn.agent.realtime
        if settings is None:
            raise _unavailable(turn)
        name, provider = _find_provider(turn, settings)
        secret = await realtime.create_client_secret(
            name,
            provider,
            _compose(turn, settings, session),
            lifetime_seconds=lifetime_seconds,
        )
        return secret, turn.headers


def _find_provider(turn: Turn, settings: RealtimeConfig) -> tuple[str, ProviderConfig]:
    name = settings.provider or turn.agent.provider
    provider = turn.config.get(PROVIDERS)[name]
    return name, provider


def _unavailable(turn: Turn) -> RealtimeUnavailable:
    return RealtimeUnavailable(
        f"The agent '{escape_and_truncate(turn.agent.name)}' cannot be spoken to: it "
        "has no realtime model.",
        param="session.model",
    )


def _compose(
    turn: Turn, settings: RealtimeConfig, session: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the session: the client's choices, with what the agent decides."""
    composed = {
        **session,
        "type": "realtime",
        "model": settings.model,
        "audio": _audio(settings, session.get("audio") or {}),
        "instructions": _instructions(turn.prompt),
    }
    tools = [*turn.request.tools, *map(to_openai_tool, turn.tools)]
    if tools:
        composed["tools"] = [
            {"type": "function", **_without_strict(tool["function"])} for tool in tools
        ]
    return composed


def _instructions(messages: Sequence[Message]) -> str:
    # Stored messages follow: the browser adds those that it wants.
    return "\n\n".join(each.text for each in prompt.leading_system(messages))


def _without_strict(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool without what the Realtime API does not have."""
    return {key: value for key, value in function.items() if key != "strict"}


def _audio(settings: RealtimeConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of audio, with the agent's where the client sets none."""
    defaults: dict[str, dict[str, Any]] = {"input": {}, "output": {}}
    if settings.transcription is not None:
        defaults["input"]["transcription"] = {"model": settings.transcription}
    if settings.voice is not None:
        defaults["output"]["voice"] = settings.voice
    audio = {
        key: {**value, **(given.get(key) or {})} for key, value in defaults.items()
    }
    return {key: value for key, value in audio.items() if value}
