"""Import conversations that ChatGPT exported: Settings, Data controls, Export data."""

import re
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from access.users import identity
from core.errors import Invalid
from imports import input_files
from imports.chats import archives, branches, conversations, json_stream
from imports.chats.conversations import (
    ACCOUNT,
    ConversationStore,
    SourceConversation,
    SourceMessage,
)
from imports.errors import SourceUnreadable
from imports.report import Report

HELP = "Conversations of a data export of ChatGPT."
THREAD_PREFIX = "chatgpt-"
MEMBER = re.compile(r"conversations(-\d{1,6})?\.json")
"""Large exports have several of these files."""
CITATION = re.compile("\ue200[^\ue200\ue201]{0,10000}\ue201")
"""What ChatGPT shows as the link of a source: `cite`, and ids of its own."""
TEXT_TYPES = ("text", "multimodal_text", "code")
"""Others are thoughts, results of tools, and what ChatGPT adds to the prompt."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "export",
        metavar="EXPORT.zip",
        type=Path,
        help="The archive, or its conversations.json.",
    )
    parser.add_argument(
        "--user",
        required=True,
        metavar="NAME",
        help="The user of the conversations, by safety_identifier or UUID.",
    )
    conversations.add_arguments(parser)


def run(options: dict[str, Any], report: Report) -> None:
    if ACCOUNT in options["user"]:
        raise Invalid(f"--user: {ACCOUNT} is for exports of several accounts; name one")
    user_id = identity.derive_user_id(identity.check_identifier(options["user"]))
    store = ConversationStore(options, report)
    for number, data in enumerate(_read(options["export"]), start=1):
        row = f"conversation {number}"
        if data is None:
            store.skip(row, "it is larger than 64 MiB")
            continue
        try:
            conversation = read_conversation(data)
        except Invalid as exc:
            store.skip(row, str(exc))
            continue
        store.store(user_id, conversation)
    store.check_any("import openwebui")
    store.note_next_steps()


def _read(path: Path) -> Iterator[Any]:
    if not archives.is_archive(path):
        with input_files.open_file(path) as file:
            yield from json_stream.read_list(file, path.name)
        return
    is_empty = True
    with archives.open_members(path, MEMBER) as members:
        for name, file in members:
            is_empty = False
            yield from json_stream.read_list(file, name)
    if is_empty:
        raise SourceUnreadable(
            f"{path.name} has no conversations.json; give the archive that ChatGPT "
            "sent, or its conversations.json"
        )


def read_conversation(data: Any) -> SourceConversation:
    """Return the current branch of a conversation; raises `Invalid`."""
    if not isinstance(data, dict):
        raise Invalid("it is not an object")
    found = conversations.read_id(data.get("conversation_id") or data.get("id"), "id")
    title = data.get("title")
    conversation = SourceConversation(
        f"{THREAD_PREFIX}{found}", title if isinstance(title, str) else ""
    )
    nodes = branches.read_branch(
        data.get("mapping"), data.get("current_node"), parent="parent"
    )
    for node_id, node in nodes:
        message = node.get("message")
        if isinstance(message, dict):
            _add_message(conversation, node_id, message)
    return conversation


def _add_message(
    conversation: SourceConversation, node_id: str, message: dict[str, Any]
) -> None:
    author, metadata = message.get("author"), message.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    role = author.get("role") if isinstance(author, dict) else None
    # Other recipients are tools.
    is_shown = message.get("recipient") in ("all", None)
    if (
        role not in ("user", "assistant")
        or not is_shown
        or metadata.get("is_visually_hidden_from_conversation")
    ):
        return
    text, count = _read_content(message.get("content"))
    attachments = metadata.get("attachments")
    count = max(count, len(attachments) if isinstance(attachments, list) else 0)
    conversation.attachments += count
    if not text:
        if not count:
            return
        text = conversations.ATTACHMENT
    created_at = conversations.read_time(message.get("create_time"))
    conversation.messages.append(SourceMessage(node_id, role, text, created_at))


def _read_content(content: Any) -> tuple[str, int]:
    """Return the text of a message, and how many parts of it are no text."""
    if not isinstance(content, dict) or content.get("content_type") not in TEXT_TYPES:
        return "", 0
    parts = content.get("parts")
    if not isinstance(parts, list):
        parts = [content.get("text")]
    texts, others = [], 0
    for part in parts:
        if isinstance(part, dict):
            # The transcript of a recording.
            others += "text" not in part
            part = part.get("text")
        if isinstance(part, str):
            texts.append(part)
    return CITATION.sub("", "\n".join(texts)).strip(), others
