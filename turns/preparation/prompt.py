"""Composes the prompt: which messages the model receives, in which order."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from typing import Any

from core.messages import Message
from turns.errors import MessagesInvalid


def new_messages(messages: Sequence[Message]) -> list[Message]:
    """Return the messages after the last assistant one, without system messages."""
    start = 0
    for position, message in enumerate(messages):
        if message.role == "assistant":
            start = position + 1
    return conversation(messages[start:])


def has_reply(messages: Iterable[Message]) -> bool:
    """Return whether a reply is among the messages."""
    return any(message.role == "assistant" for message in messages)


def check_new(new: Sequence[Message], messages: Sequence[Message]) -> None:
    """Raise `MessagesInvalid` if nothing continues the stored conversation.

    Instructions alone do: the model may speak first.
    """
    if not new and messages[-1].role == "assistant":
        raise MessagesInvalid(
            "messages must end with a user message or the results of tool calls"
        )


def conversation(messages: Sequence[Message]) -> list[Message]:
    """Return all messages except system messages: the client's own history."""
    return [message for message in messages if message.role != "system"]


def leading_system(messages: Sequence[Message]) -> list[Message]:
    """Return the system messages before any other."""
    return list(takewhile(lambda message: message.role == "system", messages))


def system_messages(
    preamble: str, instructions: Iterable[str], messages: Sequence[Message]
) -> list[Message]:
    """Return the agent's system message, then the client's."""
    text = "\n\n".join(part for part in (preamble.strip(), *instructions) if part)
    client = [message for message in messages if message.role == "system"]
    return [Message("system", text), *client] if text else client


def with_answered_calls(
    history: Sequence[Message], new: Sequence[Message], sent: Sequence[Message]
) -> Sequence[Message]:
    """Return the new messages, after the calls they answer if the history lacks those.

    A tool loop that began elsewhere (in an incognito turn, in another thread) continues
    here, because the client has sent all of it.
    """
    call_ids = _call_ids(history)
    if all(each.tool_call_id in call_ids for each in new if each.role == "tool"):
        return new
    messages = conversation(sent)
    start = len(messages) - len(new)
    while start > 0 and messages[start].role != "user":
        start -= 1
    return messages[start:]


def _call_ids(messages: Iterable[Message]) -> set[str]:
    return {call.id for message in messages for call in message.tool_calls}


def join(history: Sequence[Message], new: Sequence[Message]) -> list[Message]:
    """Return history and new messages as one conversation that every provider accepts.

    New tool results are placed next to their calls, however old those are. Raises
    `MessagesInvalid` for a result without a call.
    """
    _check_results(new, [*history, *new])
    return drop_malformed([*_with_calls_last(history, new), *new])


def as_sent(messages: Sequence[Message]) -> list[Message]:
    """Return a client's whole conversation as it sent it.

    Only calls without a result are left out, which providers refuse. Raises
    `MessagesInvalid` for a result without a call.
    """
    _check_results(messages, messages)
    return drop_malformed(messages, keeps_repeats=True)


def _check_results(new: Sequence[Message], messages: Sequence[Message]) -> None:
    call_ids = _call_ids(messages)
    for message in new:
        if message.role == "tool" and message.tool_call_id not in call_ids:
            raise MessagesInvalid(
                f"a tool message answers the call '{message.tool_call_id}', which is "
                "not in the conversation: send the assistant message with that call "
                "before it, in the same thread"
            )


def _with_calls_last(
    history: Sequence[Message], new: Sequence[Message]
) -> Sequence[Message]:
    """Return a history that ends with the calls which new results answer.

    A client that never received the reply sends its results again; others send them one
    by one, or after the user has asked something else. Assistant messages after the
    calls are dropped, because the model is about to write them again; user messages
    stay, before the calls.
    """
    if not new or new[0].role != "tool":
        return history
    answered = {message.tool_call_id for message in new if message.role == "tool"}
    start = len(history)
    while start and not answered & _call_ids(history[start - 1 : start]):
        start -= 1
    if not start:
        return history
    end = start + len(_results_after(history, start))
    exchange, later = history[start - 1 : end], history[end:]
    if all(message.role != "user" for message in later):
        later = ()
    return [*history[: start - 1], *later, *exchange]


def without_audio(messages: Iterable[Message]) -> list[Message]:
    """Return stored messages with a placeholder for audio.

    The audio has been answered already, and few models accept it: the others would
    refuse the thread forever.
    """
    return [
        replace(
            message, content=[_without_audio_part(part) for part in message.content]
        )
        if message.content is not None and not isinstance(message.content, str)
        else message
        for message in messages
    ]


def _without_audio_part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") != "input_audio":
        return part
    return {"type": "text", "text": "(audio)"}


def drop_malformed(
    messages: Sequence[Message], *, keeps_repeats: bool = False
) -> list[Message]:
    """Return the messages without those that providers refuse.

    Drops calls without a result (the client gave up) and results without a call. The
    same question twice in a row (a client's retry) is sent once.
    """
    result: list[Message] = []
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        if message.tool_calls:
            results = _results_after(messages, position)
            position += len(results)
            result += _complete_exchange(message, results)
        elif message.role == "user":
            if keeps_repeats or not result or result[-1] != message:
                result.append(message)
        elif message.role != "tool":
            result.append(message)
    return result


def _results_after(messages: Sequence[Message], start: int) -> list[Message]:
    following = islice(messages, start, None)
    return list(takewhile(lambda message: message.role == "tool", following))


def _complete_exchange(message: Message, results: Sequence[Message]) -> list[Message]:
    answers = {result.tool_call_id: result for result in results}
    calls = tuple(call for call in message.tool_calls if call.id in answers)
    if not calls:
        return [replace(message, tool_calls=(), reasoning=())] if message.text else []
    return [
        replace(message, tool_calls=calls),
        *(answers[call.id] for call in calls),
    ]
