"""Messages of conversations for operators.

They include the calls of agents' own tools. Images and files are only described.
"""

from collections.abc import Iterator
from typing import Any, cast

from core.messages import Message, Role
from core.text import redaction
from memory.models import StoredMessage
from memory.models.messages import MAX_EXTRA_LENGTH
from memory.transcript.message_rows import message_from_row


def list_messages(
    thread_id: int, *, before: int | None = None, limit: int = 40
) -> tuple[list[Any], bool]:
    """Return the newest messages of a thread, oldest first, and whether there are more.

    `before` limits them to earlier positions.
    """
    rows = StoredMessage.objects.filter(thread_id=thread_id).without_files()
    page, has_more = rows.newest_page(before, limit)
    return list(map(load_content, page)), has_more


def load_content(row: Any) -> Any:
    """Set the content of a message: its text, tool calls, and labels of other parts.

    The row comes from `without_files`. Our own secrets are redacted.
    """
    text, extra = redaction.redact_own(row.text), redaction.redact_own(row.small_extra)
    message = message_from_row(cast(Role, row.role), text, extra)
    is_oversized = row.extra_size > MAX_EXTRA_LENGTH
    oversized = [f"files ({_format_size(row.extra_size)})"] if is_oversized else []
    row.content = text
    row.parts = oversized or list(_part_labels(message))
    row.tool_calls, row.tool_call_id = message.tool_calls, message.tool_call_id or ""
    return row


def _part_labels(message: Message) -> Iterator[str]:
    content = message.content
    for part in [] if content is None or isinstance(content, str) else content:
        if part.get("type") != "text":
            yield _part_label(part)


def _part_label(part: dict[str, Any]) -> str:
    """Return what a part is, without its contents."""
    kind = str(part.get("type", "part"))
    content = part.get(kind)
    if not isinstance(content, dict):
        return kind
    url = str(content.get("url") or "")
    if "file_id" in content:
        url = str(content.get("content_type") or content["file_id"])
    details = [
        str(content[name]) for name in ("filename", "format") if content.get(name)
    ]
    data = content.get("data") or content.get("file_data") or url
    if data.startswith("data:"):
        details += [data[5:].partition(";")[0], _format_size(len(data))]
    elif url:
        details.append(url)
    elif data:
        details.append(_format_size(len(data)))
    label = kind.removesuffix("_url").removeprefix("input_")
    return f"{label} ({', '.join(details)})" if details else label


def _format_size(characters: int) -> str:
    kilobytes = characters / 1000
    if kilobytes < 1000:
        return f"{max(kilobytes, 1):.0f} kB"
    return f"{kilobytes / 1000:.1f} MB"
