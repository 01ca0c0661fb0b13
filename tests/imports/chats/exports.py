"""Exports of ChatGPT and Open WebUI, in the formats that they write."""

import json
from pathlib import Path
from typing import Any

TIME = 1_735_732_800.25
"""2025-01-01T12:00:00.25Z"""


def chatgpt_node(
    node: str,
    role: str,
    text: str,
    *,
    parent: str | None,
    seconds: float = 0,
    kind: str = "text",
    **message: Any,
) -> dict[str, Any]:
    content: dict[str, Any] = {"content_type": kind, "parts": [text]}
    if kind == "thoughts":
        content = {"content_type": kind, "thoughts": [{"summary": text}]}
    return {
        "id": node,
        "message": {
            "id": node,
            "author": {"role": role, "name": None, "metadata": {}},
            "create_time": TIME + seconds,
            "update_time": None,
            "content": content,
            "status": "finished_successfully",
            "end_turn": True,
            "weight": 1.0,
            "metadata": {"model_slug": "gpt-4o", "parent_id": parent},
            "recipient": "all",
            "channel": None,
            **message,
        },
        "parent": parent,
        "children": [],
    }


def chatgpt_conversation(id: str, *nodes: dict[str, Any], last: str) -> dict[str, Any]:
    root = {"id": "client-created-root", "message": None, "parent": None}
    mapping = {"client-created-root": {**root, "children": []}}
    mapping |= {node["id"]: node for node in nodes}
    return {
        "title": "Trip to Oslo",
        "create_time": TIME,
        "update_time": TIME + 500,
        "mapping": mapping,
        "moderation_results": [],
        "current_node": last,
        "plugin_ids": None,
        "conversation_id": id,
        "id": id,
        "gizmo_id": None,
        "is_archived": False,
        "safe_urls": [],
        "default_model_slug": "gpt-4o",
    }


def oslo(id: str) -> dict[str, Any]:
    """A conversation with a regenerated reply, a tool, thoughts and an image."""
    image = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://f"}
    photo = chatgpt_node("q2", "user", "", parent="a1", seconds=100)
    photo["message"]["content"] = {
        "content_type": "multimodal_text",
        "parts": [image, "Where was this taken?"],
    }
    return chatgpt_conversation(
        id,
        chatgpt_node(
            "sys",
            "system",
            "",
            parent="client-created-root",
            metadata={"is_visually_hidden_from_conversation": True},
        ),
        chatgpt_node(
            "hidden",
            "user",
            "Answer in English.",
            parent="sys",
            metadata={"is_visually_hidden_from_conversation": True},
        ),
        chatgpt_node("q1", "user", "I am going to Oslo in May.", parent="hidden"),
        chatgpt_node("a0", "assistant", "A first reply.", parent="q1", seconds=5),
        chatgpt_node(
            "a1",
            "assistant",
            "Take a coat.\ue200cite\ue202turn0search1\ue201",
            parent="q1",
            seconds=10,
        ),
        photo,
        chatgpt_node("think", "assistant", "Hm.", parent="q2", kind="thoughts"),
        chatgpt_node(
            "call", "assistant", "search('x')", parent="think", recipient="web"
        ),
        chatgpt_node("result", "tool", "many pages", parent="call"),
        chatgpt_node("a2", "assistant", "At the opera.", parent="result", seconds=110),
        last="a2",
    )


def openwebui_message(
    id: str, role: str, content: str, *, parent: str | None, **more: Any
) -> dict[str, Any]:
    return {
        "id": id,
        "parentId": parent,
        "childrenIds": [],
        "role": role,
        "content": content,
        "timestamp": int(TIME),
        "models": ["llama3.2:latest"],
        **more,
    }


def openwebui_chat(
    id: str, *messages: dict[str, Any], account: str, last: str
) -> dict[str, Any]:
    by_id = {each["id"]: each for each in messages}
    return {
        "id": id,
        "user_id": account,
        "title": "🍲 Soup",
        "chat": {
            "id": "",
            "title": "🍲 Soup",
            "models": ["llama3.2:latest"],
            "params": {},
            "history": {"messages": by_id, "currentId": last},
            "messages": list(messages),
            "tags": [],
            "timestamp": int(TIME * 1000),
            "files": [],
        },
        "updated_at": int(TIME) + 100,
        "created_at": int(TIME),
        "share_id": None,
        "archived": False,
        "pinned": False,
        "meta": {"tags": ["food"]},
        "folder_id": None,
    }


def soup(id: str, account: str = "acc-1") -> dict[str, Any]:
    """A chat with reasoning, and with a regenerated reply."""
    thinking = (
        '<details type="reasoning" done="true" duration="2">\n<summary>Thought'
        "</summary>\n> leeks?\n</details>\nUse leeks."
    )
    return openwebui_chat(
        id,
        openwebui_message("m1", "user", "I love leeks. A soup?", parent=None),
        openwebui_message("m2", "assistant", "Buy a tin.", parent="m1", done=True),
        openwebui_message("m3", "assistant", thinking, parent="m1", done=True),
        account=account,
        last="m3",
    )


def write(path: Path, data: Any) -> Path:
    path.write_text(json.dumps(data))
    return path
