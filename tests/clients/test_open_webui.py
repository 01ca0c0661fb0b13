"""The requests of Open WebUI: its headers, and its calls beside the conversation."""

import httpx
import pytest

from access.tokens import api_tokens
from tests.access.actors import ADA
from tests.clients.conftest import KEY, SCRIPTED
from tests.clients.conversations import NAMES, received
from tests.clients.programs import programs
from tests.gateway.calls import stored, threads

TASK = (
    "### Task:\n{task}\n### Chat History:\n<chat_history>\nUSER: My name is Ada.\n"
    "ASSISTANT: Hello Ada.\n</chat_history>"
)
TITLE, TAGS, QUESTIONS = (
    TASK.format(task=task)
    for task in (
        "Generate a concise, 3-5 word title with an emoji for the chat history.",
        "Generate 1-3 broad tags categorizing the main themes of the chat history.",
        "Suggest 3-5 relevant follow-up questions that the user might ask next.",
    )
)


@pytest.fixture
def post(address, user):
    """Return a function that sends a chat as Open WebUI does, and returns the reply."""

    def post(
        model: str,
        chat: str,
        *messages: tuple[str, str],
        account: str = user,
        key: str = "unused",
        **fields,
    ) -> str:
        headers = {
            "Authorization": f"Bearer {key}",
            "X-OpenWebUI-User-Name": "Ada",
            "X-OpenWebUI-User-Id": account,
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


def test_requests_of_the_task_model_leave_no_trace(post, fake, user):
    fake.reply("Hello Ada.")
    post("chat", "one", *NAMES[:1])
    for task in (TITLE, TAGS, QUESTIONS):
        fake.reply('{"tags": ["names"]}')
        assert post("titles", "one", ("user", task)) == '{"tags": ["names"]}'
        assert received(fake.bodies[-1]) == [("user", task)]
    roles = [role for role, *_ in stored(user, "one")]
    assert (threads(user), roles) == (["one"], ["user", "assistant"])


def test_tasks_without_a_task_model_do_not_disturb_the_chat(post, fake):
    for reply in ("Hello Ada.", '{"title": "Names"}', "Ada."):
        fake.reply(reply)
    post("chat", "one", *NAMES[:1])
    assert post("chat", "one", ("user", TITLE)) == '{"title": "Names"}'
    assert received(fake.bodies[-1]) == [("user", TITLE)]
    assert post("chat", "one", *NAMES) == "Ada."
    assert received(fake.bodies[-1]) == NAMES


def test_accounts_behind_one_token_have_separate_chats(post, configure, fake, user):
    text = next(p.text for p in programs() if p.language == "yaml")
    configure(text.replace(KEY, SCRIPTED) + "\nauth: {proxy: {tokens: {}}}\n")
    terms = {"client_users": "separate", "by": ADA}
    _, key = api_tokens.create_token("webui", user, **terms)
    for account in ("ada", "bob"):
        fake.reply("Hello.")
        post("assistant", "one", ("user", f"I am {account}."), account=account, key=key)
        assert received(fake.bodies[-1]) == [("user", f"I am {account}.")]
        assert threads(f"{user}/{account}") == ["one"]


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
