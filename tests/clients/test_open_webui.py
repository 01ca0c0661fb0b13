"""The requests of Open WebUI: its headers, and its calls beside the conversation."""

import httpx
import pytest

from tests.clients.conversations import NAMES, received

TITLE = "### Task:\nGenerate a concise, 3-5 word title.\n<chat_history>…</chat_history>"


@pytest.fixture
def post(address, user):
    """Return a function that sends a chat as Open WebUI does, and returns the reply."""

    def post(model: str, chat: str, *messages: tuple[str, str], **fields) -> str:
        headers = {
            "Authorization": "Bearer unused",
            "X-OpenWebUI-User-Name": "Ada",
            "X-OpenWebUI-User-Id": user,
            "X-OpenWebUI-User-Email": "ada@example.com",
            "X-OpenWebUI-User-Role": "user",
            "X-OpenWebUI-Chat-Id": chat,
        }
        body = {
            "model": model,
            "messages": [{"role": role, "content": text} for role, text in messages],
            "stream": False,
            **fields,
        }
        url = f"{address}/v1/chat/completions"
        response = httpx.post(url, json=body, headers=headers, timeout=60)
        assert response.status_code == 200, response.text
        return response.json()["choices"][0]["message"]["content"]

    return post


def test_titles_and_other_chats_stay_outside_the_conversation(post, fake):
    for reply in ("Hello Ada.", "Names", "I do not know.", "Ada.", "Good night."):
        fake.reply(reply)
    assert post("chat", "one", *NAMES[:1]) == "Hello Ada."
    assert post("titles", "one", ("user", TITLE), max_completion_tokens=9) == "Names"
    assert post("chat", "two", *NAMES[2:]) == "I do not know."
    assert post("chat", "one", *NAMES) == "Ada."
    # The server adds what it has stored of the chat.
    assert post("assistant", "one", ("user", "Good night")) == "Good night."
    assert [received(body) for body in fake.bodies] == [
        NAMES[:1],
        [("user", TITLE)],
        NAMES[2:],
        NAMES,
        [*NAMES, ("assistant", "Ada."), ("user", "Good night")],
    ]
