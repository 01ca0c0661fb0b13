"""The messages of a request, as checks before and beside the reply read them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from core.messages import Message
from safety.config import SafetyCheck
from safety.detection import rules
from safety.finding import Finding
from safety.text_window import TextWindow


@dataclass(frozen=True, slots=True)
class CheckedMessages:
    """The messages that checks read."""

    conversation: Sequence[Message]
    context: int
    """How many of them, at the beginning, are only context."""
    stored: int = 0
    """How many of them, at the beginning, the server keeps."""
    instructions: Sequence[Message] = ()
    """The system messages of the client."""

    def of(self, check: SafetyCheck) -> tuple[Sequence[Message], int]:
        """Return the messages for a check, and how many of them are context."""
        if check.messages == "new":
            return self.conversation, self.context
        stored, sent = (
            self.conversation[: self.stored],
            self.conversation[self.stored :],
        )
        return [*stored, *self.instructions, *sent], self.stored


def first_new(messages: Sequence[Message]) -> int:
    """Return the position of the first message that no reply has answered.

    A reply at the end, which the model is to continue, answers nothing: anyone can add
    one.
    """
    end = len(messages)
    while end and messages[end - 1].role in ("assistant", "system"):
        end -= 1
    while end and messages[end - 1].role != "assistant":
        end -= 1
    return end


def mask(
    messages: Sequence[Message], checks: Sequence[SafetyCheck]
) -> tuple[list[Message], list[Finding]]:
    """Check a request's messages by patterns: return them masked, and what was found.

    All that the client sends is masked, because clients that send the conversation send
    again what was masked in earlier turns. Only replies stay as they received them.
    """
    first = first_new(messages)
    masked: list[Message] = []
    findings: list[Finding] = []
    for position, message in enumerate(messages):
        is_new = position >= first and message.role != "system"
        is_reply = message.role == "assistant" and not is_new
        counted = {each.name for each in checks if is_new or each.messages == "all"}
        used = [
            each
            for each in checks
            if each.name in counted or (each.masks and not is_reply)
        ]
        changed, found = _mask_message(message, used)
        masked.append(message if is_reply else changed)
        findings += (each for each in found if each.check.name in counted)
    return masked, findings


def _mask_message(
    message: Message, checks: Sequence[SafetyCheck]
) -> tuple[Message, list[Finding]]:
    """Return a message whose texts are masked, and what was found in them.

    What begins in one part and ends in another is found, too; the text parts are then
    one.
    """
    content = message.content
    if content is None or not checks:
        return message, []
    window = TextWindow(checks, None)
    if isinstance(content, str):
        changed = replace(message, content=window.check(content))
        return changed, window.take_found()
    parts = [
        {**part, "text": window.check(part["text"])} if _is_text(part) else part
        for part in content
    ]
    texts = [part["text"] for part in parts if _is_text(part)]
    if len(texts) > 1:
        whole = window.check("".join(texts))
        if whole != "".join(texts):
            first = next(n for n, part in enumerate(parts) if _is_text(part))
            parts[first] = {**parts[first], "text": whole}
            later = (part for part in parts[first + 1 :] if not _is_text(part))
            parts = [*parts[: first + 1], *later]
    return replace(message, content=parts), window.take_found()


def _is_text(part: dict[str, object]) -> bool:
    return part.get("type") == "text"


def mask_earlier(
    messages: Sequence[Message], checks: Sequence[SafetyCheck], first: int
) -> list[Message]:
    """Return a prompt whose earlier messages of the user pass the rules of checks.

    What a rule refuses was refused when it was new, unless its client has invented it
    or added it to a conversation. `first` is the position of the first new message.
    """
    masking = [check for check in checks if check.masks]
    earlier = (
        _mask_if_refused(_mask_message(message, masking)[0], checks)
        if message.role in ("user", "tool")
        else message
        for message in messages[:first]
    )
    return [*earlier, *messages[first:]]


def _mask_if_refused(message: Message, checks: Iterable[SafetyCheck]) -> Message:
    text = message.text
    for check in checks if text else ():
        if check.refuses and any(
            check.action(check.level_of(match)).refuse is not None
            for match in rules.find_matches(check, text)
        ):
            return replace(message, content=f"[{check.name}]")
    return message
