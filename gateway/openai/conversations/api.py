"""`/v1/conversations`."""

from django.http import HttpRequest, HttpResponse
from ninja import Body, Query, Router

from access.users.request_user import CallerQuery, identify_user
from api_base import pagination
from api_base.json_responses import json_response
from database import database_executor
from gateway.openai.conversations import thread_items
from gateway.openai.conversations.schemas import (
    ConversationChange,
    NewConversation,
    NewItems,
)
from gateway.openai.responses.schemas import IncludeQuery, ItemsQuery
from memory.transcript import conversations, message_deletion

router = Router(tags=["Conversations"])


@router.post("", summary="Create a conversation")
async def create_conversation(
    request: HttpRequest, query: Query[CallerQuery], body: Body[NewConversation]
) -> HttpResponse:
    user_id = identify_user(request, query, body)
    created = await thread_items.create(user_id, body.metadata or {}, body.items or [])
    return json_response(thread_items.serialize(created))


@router.get("/{conversation_id}", summary="Show a conversation")
async def show_conversation(
    request: HttpRequest, conversation_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    found = await thread_items.find(user_id, conversation_id)
    return json_response(thread_items.serialize(found))


@router.post("/{conversation_id}", summary="Change the metadata of a conversation")
async def change_conversation(
    request: HttpRequest,
    conversation_id: str,
    query: Query[CallerQuery],
    body: Body[ConversationChange],
) -> HttpResponse:
    user_id = identify_user(request, query, body)
    await thread_items.find(user_id, conversation_id)
    await database_executor.run_to_end(
        conversations.set_metadata, user_id, conversation_id, body.metadata or {}
    )
    changed = await thread_items.find(user_id, conversation_id)
    return json_response(thread_items.serialize(changed))


@router.delete("/{conversation_id}", summary="Delete a conversation")
async def delete_conversation(
    request: HttpRequest, conversation_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    await thread_items.find(user_id, conversation_id)
    await database_executor.run_to_end(
        message_deletion.delete_thread, user_id, conversation_id
    )
    return json_response(
        {"id": conversation_id, "object": "conversation.deleted", "deleted": True}
    )


@router.get("/{conversation_id}/items", summary="List the items of a conversation")
async def list_items(
    request: HttpRequest, conversation_id: str, query: Query[ItemsQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    await thread_items.find(user_id, conversation_id)
    return json_response(await thread_items.read_page(user_id, conversation_id, query))


@router.post("/{conversation_id}/items", summary="Add items to a conversation")
async def create_items(
    request: HttpRequest,
    conversation_id: str,
    query: Query[IncludeQuery],
    body: Body[NewItems],
) -> HttpResponse:
    user_id = identify_user(request, query, body)
    await thread_items.find(user_id, conversation_id)
    added = await thread_items.add(user_id, conversation_id, body.items)
    return json_response(pagination.serialize_page(added, has_more=False))


@router.get(
    "/{conversation_id}/items/{item_id}", summary="Show an item of a conversation"
)
async def show_item(
    request: HttpRequest,
    conversation_id: str,
    item_id: str,
    query: Query[IncludeQuery],
) -> HttpResponse:
    user_id = identify_user(request, query)
    await thread_items.find(user_id, conversation_id)
    return json_response(
        await thread_items.read_item(user_id, conversation_id, item_id)
    )


@router.delete(
    "/{conversation_id}/items/{item_id}", summary="Delete an item of a conversation"
)
async def delete_item(
    request: HttpRequest,
    conversation_id: str,
    item_id: str,
    query: Query[CallerQuery],
) -> HttpResponse:
    user_id = identify_user(request, query)
    found = await thread_items.find(user_id, conversation_id)
    await thread_items.delete_item(user_id, conversation_id, item_id)
    return json_response(thread_items.serialize(found))
