"""The items of a thread: read, added and deleted.

An item of a reply has the id that it had in its response; other ids contain the
position of their message.
"""

from collections.abc import Sequence
from typing import Any

from api_base import pagination
from api_base.pagination import PageQuery
from core import ids
from core.errors import Invalid
from core.ids import UserId
from core.messages import Message
from database import database_executor
from gateway.openai.errors import ConversationUnknown, ItemUnknown
from gateway.openai.responses import (
    conversation_items,
    input_items,
    output_items,
    stored_responses,
)
from gateway.openai.responses.output_items import ItemObject
from gateway.openai.responses.schemas import InputItem
from memory.transcript import conversations, message_deletion
from memory.transcript.conversations import Conversation, ConversationMessage
from turns.preparation.options import CONVERSATION_PREFIX


async def find(user_id: UserId, name: str) -> Conversation:
    """Return a conversation; raises `ConversationUnknown`."""
    found = await database_executor.run(conversations.find, user_id, name)
    # The default thread has no name.
    if found is None or not name:
        raise ConversationUnknown(name)
    return found


def serialize(conversation: Conversation) -> dict[str, Any]:
    return {
        "id": conversation.name,
        "object": "conversation",
        "created_at": int(conversation.created_at.timestamp()),
        "metadata": dict(conversation.metadata),
    }


async def create(
    user_id: UserId, metadata: dict[str, str], items: Sequence[InputItem]
) -> Conversation:
    """Create a conversation with items; raises `Invalid`."""
    messages = await _read_input(user_id, items)
    name = f"{CONVERSATION_PREFIX}{ids.new_id().hex}"
    await database_executor.run_to_end(
        conversations.create, user_id, name, metadata, messages
    )
    return await find(user_id, name)


async def _read_input(user_id: UserId, items: Sequence[InputItem]) -> list[Message]:
    if not items:
        return []
    references = input_items.reference_ids(items)
    stored = await stored_responses.read_items(user_id, references)
    messages = input_items.to_messages(items, stored)
    if any(message.role == "system" for message in messages):
        raise Invalid(
            "instructions are not stored: send them with each response", param="items"
        )
    return messages


async def add(
    user_id: UserId, name: str, items: Sequence[InputItem]
) -> list[ItemObject]:
    """Append items to a conversation, and return them."""
    messages = await _read_input(user_id, items)
    added = await database_executor.run_to_end(
        conversations.append, user_id, name, messages
    )
    return [item for message in added for item in items_of(message)]


def items_of(found: ConversationMessage) -> list[ItemObject]:
    """Return the items of a message."""
    message = found.message
    if found.is_reply:
        return output_items.items_of_stored(
            found.turn_id, message.text, message.tool_calls, "completed"
        )
    given = [(found.position, message)]
    return list(conversation_items.items_of_input(found.turn_id, given))


async def read_page(user_id: UserId, name: str, query: PageQuery) -> dict[str, Any]:
    """Return a page of a conversation's items; raises `Invalid` for a wrong `after`."""
    start = None
    if query.after is not None:
        start = (
            await _find_message(user_id, name, query.after, param="after")
        ).position
    # The first message may be of the previous page; each has an item or more.
    messages = await database_executor.run(
        conversations.read_page,
        user_id,
        name,
        start=start,
        is_descending=query.order == "desc",
        limit=query.limit + 2,
    )
    items: list[ItemObject] = []
    for message in messages:
        own = items_of(message)
        items += own if query.order == "asc" else own[::-1]
    return pagination.select_page(items, query, is_ordered=True)


async def _find_message(
    user_id: UserId, name: str, item_id: str, *, param: str
) -> ConversationMessage:
    """Return the message that an item is of; raises `ItemUnknown`."""
    parsed = output_items.parse_item_id(item_id)
    message = None
    if parsed is not None:
        position = parsed.number if parsed.kind == "in" else None
        message = await database_executor.run(
            conversations.find_message, user_id, name, parsed.turn_id, position
        )
    if message is None or item_id not in [item["id"] for item in items_of(message)]:
        raise ItemUnknown(item_id, param=param)
    return message


async def read_item(user_id: UserId, name: str, item_id: str) -> ItemObject:
    """Return an item of a conversation; raises `ItemUnknown`."""
    message = await _find_message(user_id, name, item_id, param="item_id")
    return next(item for item in items_of(message) if item["id"] == item_id)


async def delete_item(user_id: UserId, name: str, item_id: str) -> None:
    """Delete an item; raises `ItemUnknown`, and `Invalid` for a part of a message."""
    message = await _find_message(user_id, name, item_id, param="item_id")
    if len(items_of(message)) > 1:
        raise Invalid(
            "the item is part of a reply with several: delete the response",
            param="item_id",
        )
    await database_executor.run_to_end(
        message_deletion.delete_message, user_id, message.id
    )
