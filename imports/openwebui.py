"""Import the chats of Open WebUI: those of one account, or an administrator's export.

A chat becomes a thread named by its id, which Open WebUI sends in a header: who goes on
in Open WebUI continues the thread.
"""

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from access.users import identity
from access.users.caller import ANONYMOUS
from core.errors import Invalid
from core.ids import UserId
from imports import input_files
from imports.chats import branches, conversations, json_stream
from imports.chats.conversations import (
    ACCOUNT,
    ConversationStore,
    SourceConversation,
    SourceMessage,
)
from imports.errors import SourceUnreadable
from imports.report import Report

HELP = "Chats that Open WebUI exported as JSON."
HIDDEN_BLOCKS = ("reasoning", "code_interpreter", "tool_calls")
"""Parts of a reply that Open WebUI folds, and does not send again."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("export", metavar="EXPORT.json", type=Path)
    parser.add_argument(
        "--user",
        required=True,
        metavar="NAME",
        help=f"The user of the chats. {ACCOUNT} in it is the id of each chat's account "
        f"in Open WebUI: '{ACCOUNT}', or 'webui/{ACCOUNT}' for a token with the "
        "principal webui and separate users.",
    )
    conversations.add_arguments(parser)


def run(options: dict[str, Any], report: Report) -> None:
    path, user = options["export"], options["user"]
    if ACCOUNT not in user:
        _require_one_account(path)
    store = ConversationStore(options, report)
    for number, chat in enumerate(_read(path), start=1):
        if chat is None:
            store.skip(f"chat {number}", "it is larger than 64 MiB")
            continue
        try:
            conversation = read_chat(chat)
            user_id = _user_of(chat, user, store)
        except Invalid as exc:
            store.skip(f"chat {number}", str(exc))
            continue
        store.store(user_id, conversation)
    store.check_any("import chatgpt")
    store.note_next_steps()


def _read(path: Path) -> Iterator[Any]:
    with input_files.open_file(path) as file:
        yield from json_stream.read_list(file, path.name)


def _require_one_account(path: Path) -> None:
    """Refuse to give the chats of several people to one user."""
    accounts = {
        str(chat.get("user_id"))[: conversations.MAX_ID_LENGTH]
        for chat in _read(path)
        if isinstance(chat, dict)
    }
    if len(accounts) > 1:
        raise SourceUnreadable(
            f"{path.name} has the chats of {len(accounts):,} accounts; give each to "
            f"its own user with --user '{ACCOUNT}'"
        )


def _user_of(chat: dict[str, Any], user: str, store: ConversationStore) -> UserId:
    if ACCOUNT not in user:
        return identity.derive_user_id(identity.check_identifier(user))
    account = conversations.read_id(chat.get("user_id"), "user_id")
    name = user.replace(ACCOUNT, account)
    return identity.resolve_user(store.config, ANONYMOUS, name)


def read_chat(chat: Any) -> SourceConversation:
    """Return the current branch of a chat; raises `Invalid`."""
    body = chat.get("chat") if isinstance(chat, dict) else None
    if not isinstance(body, dict):
        raise Invalid("it has no 'chat' with its messages")
    title = chat.get("title") or body.get("title")
    conversation = SourceConversation(
        conversations.read_id(chat.get("id"), "id"),
        title if isinstance(title, str) else "",
    )
    history = body.get("history")
    if not isinstance(history, dict):
        raise Invalid("it has no 'chat.history'")
    nodes = branches.read_branch(
        history.get("messages"), history.get("currentId"), parent="parentId"
    )
    for node_id, node in nodes:
        _add_message(conversation, node_id, node)
    return conversation


def _add_message(
    conversation: SourceConversation, node_id: str, node: dict[str, Any]
) -> None:
    role, text = node.get("role"), node.get("content")
    if role not in ("user", "assistant"):
        return
    files = node.get("files")
    count = len(files) if isinstance(files, list) else 0
    conversation.attachments += count
    text = _without_hidden(text) if isinstance(text, str) else ""
    if not text.strip():
        if not count:
            return
        text = conversations.ATTACHMENT
    created_at = conversations.read_time(node.get("timestamp"))
    conversation.messages.append(SourceMessage(node_id, role, text, created_at))


def _without_hidden(text: str) -> str:
    """Return a reply without its folded parts: `<details type="reasoning">…`."""
    for kind in HIDDEN_BLOCKS:
        begin = f'<details type="{kind}"'
        kept: list[str] = []
        while (start := text.find(begin)) >= 0:
            kept.append(text[:start])
            _, _, text = text[start:].partition("</details>")
        text = "".join([*kept, text])
    return text.strip()
