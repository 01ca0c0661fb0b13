"""What the model received, in a form that a test can write down."""

import json
from typing import Any

Line = tuple[str, Any]

UMBRELLA = [
    ("user", "Do I need an umbrella in Oslo?"),
    ("call", ("get_weather", {"city": "Oslo"})),
    ("tool", "Rain in Oslo"),
]
NAMES = [
    ("user", "My name is Ada."),
    ("assistant", "Hello Ada."),
    ("user", "What is my name?"),
]
WHY = [*UMBRELLA, ("assistant", "Yes."), ("user", "Why?")]
BRIEF = [("system", "Be brief.")]


def received(body: dict[str, Any]) -> list[Line]:
    """Return the messages of a provider's request as pairs of role and content.

    A call is `("call", (name, arguments))`, its result `("tool", content)`.
    """
    return [line for message in body["messages"] for line in _lines(message)]


def _lines(message: dict[str, Any]) -> list[Line]:
    calls: list[Line] = [
        ("call", (call["function"]["name"], json.loads(call["function"]["arguments"])))
        for call in message.get("tool_calls") or []
    ]
    content = _text(message.get("content"))
    return [(message["role"], content), *calls] if content or not calls else calls


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return content or ""
