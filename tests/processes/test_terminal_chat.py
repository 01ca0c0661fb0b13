"""`coulisse chat` talks to the running server."""

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from access.users import identity
from core.text.sanitization import escape_for_terminal
from memory.models import Fact, Session
from processes.terminal_chat import chat_api, line_input
from testing.scripted_provider import FakeProvider
from tests.conftest import CONFIG, TIMEOUT_SECONDS
from tests.memory.facts.saving import save

pytestmark = pytest.mark.database

Chat = Callable[..., tuple[str, str]]
MAX_SECONDS = 3 * TIMEOUT_SECONDS
"""A process that starts beside others has little of the machine."""
PAUSE_SECONDS = 10.0
PROMPT = "0m>"
"""The prompt, after the code that resets colors."""


@pytest.fixture
def chat(server: str, monkeypatch) -> Chat:
    """Return a function that pipes lines into a chat, and returns its output."""

    def chat(
        *lines: str, agent: str | None = "assistant", **options: str
    ) -> tuple[str, str]:
        data = "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        out, err = io.StringIO(), io.StringIO()
        try:
            call_command(
                "chat",
                *filter(None, [agent]),
                url=server,
                stdout=out,
                stderr=err,
                **options,
            )
        except CommandError as exc:
            err.write(f"{exc}\n")
        return out.getvalue(), err.getvalue()

    return chat


def test_each_piped_line_gets_a_reply(chat: Chat, fake: FakeProvider, user: str):
    fake.reply("Hello", " there")
    fake.reply("Two")

    out, err = chat("Hi", "", "and now?", user=user)

    assert (out, err) == ("Hello there\nTwo\n", "")
    texts = [each["content"] for each in fake.requests[1].body["messages"]]
    assert texts[1:] == ["Hi", "Hello there", "and now?"]


def test_first_agent_answers_by_default(server: str, chat: Chat, fake: FakeProvider):
    fake.reply("ok")

    out, _ = chat("Hi", agent=None)

    assert out == "ok\n"
    assert "test assistant" in str(fake.requests[0].body["messages"])


def test_unknown_agent_is_named_with_a_suggestion(chat: Chat):
    _, err = chat("Hi", agent="asistant")

    assert "'asistant'" in err
    assert "did you mean 'assistant'?" in err


def test_guest_is_known_in_one_thread_only(chat: Chat, fake: FakeProvider):
    for _ in range(3):
        fake.reply("ok")

    _, err = chat("one", "/new", "two", "/thread", thread="local-000000000001")
    chat("three", thread="local-000000000001")

    second, third = (str(each.body["messages"]) for each in fake.requests[1:])
    assert "one" not in second
    assert "one" in third
    assert re.search(r"thread local-[0-9a-f]{12}\n", err)


def test_threads_of_a_user_are_listed(chat: Chat, fake: FakeProvider, user: str):
    fake.reply("ok")

    out, _ = chat("Hi", "/thread", user=user, thread="trip to Oslo")

    assert out == "ok\ntrip to Oslo\n"


def test_memories_are_listed_and_forgotten(server: str, chat: Chat, user: str):
    for content in ("Likes plums", "Red\x1b[31m text"):
        httpx2.post(
            f"{server}/v1/memories",
            json={"content": content, "safety_identifier": user},
        ).raise_for_status()

    out, err = chat("/memories", "/forget 2", "/memories", "/forget 9", user=user)

    assert out == (
        "  1  Red [31m text  (general)\n"
        "  2  Likes plums  (general)\n"
        "  1  Red [31m text  (general)\n"
    )
    assert err == (
        "forgotten\nname one of the last list: /memories, then /forget 2\n"
        "lines that were not answered: 1\n"
    )


def test_rules_are_listed(server: str, chat: Chat, user: str):
    for category in ("rule", "fact"):
        httpx2.post(
            f"{server}/v1/memories",
            json={
                "content": f"The {category}",
                "category": category,
                "safety_identifier": user,
            },
        ).raise_for_status()

    out, err = chat("/rules", user=user)

    assert (out, err) == ("  1  The rule  (rule)\n", "")


def test_held_memories_are_reviewed(chat: Chat, user: str):
    owner = identity.derive_user_id(user)
    for content in ("Likes plums", "Sings", "Rows"):
        save(owner, content, held_for="consent")
    save(owner, "Obey", held_for="injection")

    out, err = chat("/review", "/accept 4", "/reject 2", "/accept all", user=user)

    listed = out.splitlines()
    assert listed[0] == "  1  Obey  (general, injection)"
    assert len(listed) == 4
    assert err == "1 accepted, 3 held\n1 rejected, 2 held\n1 accepted, 1 held\n"
    facts = Fact.objects.filter(user_id=owner)
    assert facts.get(content="Obey").status == "pending_review"
    assert facts.filter(status="active").count() == 2
    assert facts.filter(status="deleted").count() == 1


def test_review_of_what_is_not_held_is_refused(chat: Chat, user: str):
    save(identity.derive_user_id(user), "Sings", held_for="consent")

    _, err = chat("/accept 1", "/review", "/reject 1", "/accept 1", user=user)

    assert err == (
        "name one of the last list: /review, then /accept 2, or /accept all\n"
        "1 rejected, 0 held\n"
        "it could not be accepted: it is not pending review any more, or you have "
        "too many rules; /review lists what is held\n"
        "lines that were not answered: 2\n"
    )


def test_sessions_are_ended_with_feedback(
    chat: Chat, configure, fake: FakeProvider, user: str
):
    own = CONFIG.replace("    preamble", "    threads: own\n    preamble", 1)
    configure(f"{own}\nmemory: {{user_state: {{embed_with: {{provider: hash}}}}}}\n")
    for _ in range(3):
        fake.reply("ok")

    _, err = chat("Hi", "/end 4 That helped.", "again", "/end", "/end 11", user=user)

    sessions = Session.objects.filter(user_id=identity.derive_user_id(user))
    found = [*sessions.order_by("started_at").values_list("score", "comment")]
    assert found[0] == (4, "That helped.")
    assert len(found) == 2
    assert err.startswith("session ended\nsession ended\n")
    assert "'11' is no score from 0 to 10" in err


def test_score_is_checked_before_it_is_sent(chat: Chat, user: str):
    _, err = chat("/end 5/10 good", user=user)
    assert "'5/10' is no score from 0 to 10" in err


def test_thread_may_be_named_by_dots(chat: Chat, fake: FakeProvider, user: str):
    fake.reply("ok")
    _, err = chat("Hi", "/end 4", user=user, thread="..")
    assert "This thread has had no session" in err


def test_empty_incognito_reply_is_not_sent_again(
    chat: Chat, fake: FakeProvider, user: str
):
    fake.reply("")
    fake.reply("ok")
    chat("/incognito", "one", "two", user=user)
    texts = [each["content"] for each in fake.requests[-1].body["messages"]]
    assert texts[1:] == ["two"]


def test_incognito_sends_the_conversation_itself(
    chat: Chat, fake: FakeProvider, user: str
):
    for _ in range(3):
        fake.reply("ok")

    chat("/incognito", "one", "two", "/incognito", "three", user=user)

    second, third = (str(each.body["messages"]) for each in fake.requests[1:])
    assert "one" in second
    assert "one" not in third


def test_tool_calls_are_shown_if_the_server_shows_them(
    chat: Chat, configure, fake: FakeProvider, user: str
):
    _, err = chat("/tools", user=user)
    assert "does not show turns" in err

    configure(
        f"{CONFIG}\ntelemetry: {{sqlite: {{show_to_users: true}}}}\n".replace(
            "    preamble: You are a test assistant.\n",
            "    preamble: You are a test assistant.\n    subagents: [tuned]\n",
            1,
        )
    )
    fake.call_tool("tuned", {"message": "sum"})
    fake.reply("42")
    fake.reply("It is 42.")
    out, err = chat("/tools", "Ask", user=user)

    assert out == "It is 42.\n"
    assert err.startswith('tool calls on\n  tuned({"message"')
    assert "→ 42" in err


def test_errors_of_the_server_are_shown(chat: Chat, fake: FakeProvider, user: str):
    fake.fail(400, message="this model cannot")
    fake.reply("ok")

    out, err = chat("Hi", "again", "/nonsense", user=user, thread="x" * 600)

    assert out.count("ok") == 0
    assert "'metadata.thread_id': String should have at most 512" in err
    assert "there is no command '/nonsense'" in err
    assert "lines that were not answered: 3" in err


def test_replies_cannot_control_the_terminal(chat: Chat, fake: FakeProvider, user: str):
    fake.reply("a\x1b[2J\nb\r\u202e", "\x1b]0;title\x07é\u00a0!")

    out, _ = chat("Hi", user=user)

    assert out == "a\\x1b[2J\nb\\u202e\\x1b]0;title\\x07é\u00a0!\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("क्\u200dष 👩\u200d💻 \u200c\u00a0", "क्\u200dष 👩\u200d💻 \u200c\u00a0"),
        ("\x1b[31m\x9b\x08\u2028\ud800", r"\x1b[31m\x9b\x08\u2028\ud800"),
    ],
)
def test_terminal_text_keeps_lines_and_joiners(text: str, shown: str):
    assert escape_for_terminal(text) == shown


def test_long_lines_and_other_encodings_are_safe(
    chat: Chat, fake: FakeProvider, user: str, monkeypatch
):
    fake.reply("ok")
    monkeypatch.setattr(line_input, "MAX_LINE_BYTES", 10)

    out, err = chat("gr\udcfc\udcdf", "x" * 11, "never sent", user=user)

    assert out == "ok\n"
    assert "a line of stdin has more than 10 bytes" in err
    assert len(fake.requests) == 1


def test_endless_response_is_refused(
    chat: Chat, fake: FakeProvider, user: str, monkeypatch
):
    fake.reply("x" * 9000)
    monkeypatch.setattr(chat_api, "MAX_RESPONSE_BYTES", 4000)

    _, err = chat("Hi", user=user)

    assert "the response has more than 4000 bytes" in err


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:9", "cannot reach http://127.0.0.1:9 .*coulisse start"),
        ("ftp://localhost", "--url must be an address"),
        ("http://localhost:port", "--url is not an address"),
    ],
)
def test_unreachable_server_is_reported(url: str, message: str):
    with pytest.raises(CommandError, match=message):
        call_command("chat", url=url)


def test_server_must_run(tmp_path: Path, settings):
    settings.COULISSE_STATE_DIR = tmp_path

    with pytest.raises(CommandError, match="start the server with"):
        call_command("chat")


def test_missing_token_is_named(chat: Chat, configure, user: str):
    configure(f"{CONFIG}\nauth: {{proxy: {{tokens: {{}}}}}}\n")

    _, err = chat("Hi", user=user)

    assert "--token" in err
    assert "status 401" in err


def test_token_decides_who_the_user_is(
    chat: Chat, configure, fake: FakeProvider, user: str
):
    configure(f"{CONFIG}\nauth: {{proxy: {{tokens: {{}}}}}}\n")
    key = io.StringIO()
    call_command("token", "create", "chat", "--principal", user, stdout=key)
    fake.reply("ok")

    out, err = chat("Hi", token=key.getvalue().split()[-1])

    assert (out, err) == ("ok\n", "")


class Terminal:
    """A chat at a terminal of its own."""

    def __init__(self, url: str, *words: str) -> None:
        self._main, inner = pty.openpty()
        self.output = ""
        self.process = subprocess.Popen(
            [
                sys.executable,
                settings.BASE_DIR / "manage.py",
                "chat",
                "--url",
                url,
                *words,
            ],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
        )
        os.close(inner)

    def expect(self, text: str, meanwhile: Callable[[], None] | None = None) -> None:
        """Read until a text appears, and do something after each pause; forget what
        was before the text."""
        deadline = time.monotonic() + MAX_SECONDS
        while text not in self.output:
            assert time.monotonic() < deadline, (text, self.output)
            if select.select([self._main], [], [], PAUSE_SECONDS)[0]:
                self._read()
            elif meanwhile is not None:
                meanwhile()
        self.output = self.output.split(text, 1)[1]

    def _read(self) -> None:
        try:
            self.output += os.read(self._main, 65536).decode(errors="replace")
        except OSError as exc:  # The chat has ended.
            raise AssertionError(self.output) from exc

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def type(self, text: str) -> None:
        os.write(self._main, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._main)


def test_chat_at_a_terminal(server: str, fake: FakeProvider, user: str):
    fake.reply("Hello", "!")
    fake.reply("slow ", "reply", hang="mid_stream")
    fake.reply("Third")
    terminal = Terminal(server, "--user", user)
    try:
        terminal.expect("/help lists the commands")
        terminal.expect(PROMPT)
        terminal.type("Hi\r")
        terminal.expect("Hello!")
        terminal.expect(PROMPT)
        terminal.type("more\r")
        terminal.expect("slow ")
        terminal.interrupt()
        # Python loses a signal that arrives while it runs a finalizer.
        terminal.expect("cancelled", meanwhile=terminal.interrupt)
        terminal.expect(PROMPT)
        terminal.type("unfinished\x03")
        terminal.expect(PROMPT)
        terminal.type("again\r")
        terminal.expect("Third")
        terminal.expect(PROMPT)
        terminal.type("\x04")
        assert terminal.process.wait(MAX_SECONDS) == 0
    finally:
        terminal.close()
