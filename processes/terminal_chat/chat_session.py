"""The state of a terminal chat, and its commands."""

import secrets
from collections.abc import Callable
from contextlib import closing
from typing import Any

from config.management.base import ConfigCommand
from config.validation.suggestions import did_you_mean
from core.text.sanitization import escape_and_truncate_line, escape_for_terminal
from processes.terminal_chat.chat_api import ChatApi, ChatRefused, Item, Response

LISTED = 100
SCORES = tuple(map(str, range(11)))
SHOWN_LENGTH = 300
"""Characters of a memory, an argument or a result that are shown."""
MAX_INCOGNITO_MESSAGES = 200
"""The client sends them again each time, because the server stores none."""


class ChatEnded(Exception):
    """The user ends the chat."""


class ChatSession:
    """A conversation with one agent, in one thread at a time."""

    def __init__(
        self,
        api: ChatApi,
        output: ConfigCommand,
        *,
        agent: str,
        user: str | None,
        thread: str | None,
    ) -> None:
        self.thread = thread or new_thread_name()
        self._api = api
        self._output = output
        self._agent = agent
        self._user = user
        self._listed: list[Item] = []
        """The last listed memories, which commands take by number."""
        self._shows_tools = False
        self._is_incognito = False
        self._incognito_messages: list[dict[str, str]] = []

    @property
    def owner(self) -> str | None:
        """The user of requests; None if the credential decides.

        A guest is a user of this thread alone.
        """
        is_guest = self._user is None and not self._api.is_authenticated
        return self.thread if is_guest else self._user

    def handle(self, line: str) -> None:
        """Run a command, or send a message.

        Raises `ChatEnded`, and the errors of `ChatApi`.
        """
        if not line.startswith("/"):
            if line.strip():
                self._send(line)
            return
        name, _, argument = line[1:].strip().partition(" ")
        if name not in COMMANDS:
            raise ChatRefused(
                f"there is no command '/{_shorten(name)}'{did_you_mean(name, COMMANDS)}"
                "; /help lists them. Begin a message with a space instead"
            )
        COMMANDS[name](self, argument.strip())

    def _send(self, text: str) -> None:
        message = {"role": "user", "content": text}
        reply: list[str] = []
        try:
            turn = self._show_reply(message, reply)
        finally:
            if reply:
                self._write("\n")
            if self._is_incognito and reply:
                answer = {"role": "assistant", "content": "".join(reply)}
                self._incognito_messages += [message, answer]
                del self._incognito_messages[:-MAX_INCOGNITO_MESSAGES]
        if self._shows_tools and not self._is_incognito:
            for call in self._request("GET", "turns", turn).calls:
                if call.name:
                    self._output.write_note(
                        f"  {_shorten(call.name)}({_shorten(call.arguments)}) → "
                        f"{_shorten(call.result or 'no result')}"
                    )

    def _show_reply(self, message: dict[str, str], reply: list[str]) -> str:
        """Write a reply as it arrives, and collect it; return the turn's id."""
        turn = ""
        is_incognito = self._is_incognito
        body = {
            "model": self._agent,
            "messages": [*self._incognito_messages, message],
            "metadata": {"thread_id": self.thread}
            | ({"memory": "incognito"} if is_incognito else {}),
            "stream": True,
        }
        with closing(self._api.stream_reply(body, user=self.owner)) as chunks:
            for chunk in chunks:
                turn = chunk.id or turn
                for choice in chunk.choices:
                    text = choice.delta.content or choice.delta.refusal or ""
                    reply += [text] if text else []
                    self._write(escape_for_terminal(text))
                    if choice.finish_reason == "length":
                        self._output.write_note("\n(cut: the reply reached its limit)")
        return turn

    def _write(self, text: str) -> None:
        self._output.stdout.write(text, ending="")
        self._output.stdout.flush()

    def _request(self, method: str, *path: str, **more: Any) -> Response:
        return self._api.request(method, *path, user=self.owner, **more)

    # Commands.

    def start_thread(self, argument: str) -> None:
        """Start a new thread."""
        self.choose_thread(new_thread_name())

    def choose_thread(self, argument: str) -> None:
        """Continue the thread NAME, or list the threads."""
        if argument:
            self.thread = argument
            self._listed, self._incognito_messages = [], []
        else:
            for thread in self._request("GET", "threads", limit=LISTED).data:
                title = _shorten(thread.title or "")
                self._write(f"{_shorten(thread.id)}  {title}".rstrip() + "\n")
        self._output.write_note(f"thread {_shorten(self.thread)}")

    def list_memories(self, argument: str) -> None:
        """List what the server remembers about you."""
        self._list_memories()

    def list_rules(self, argument: str) -> None:
        """List how you want to be answered."""
        self._list_memories(category="rule")

    def _list_memories(self, **conditions: str) -> None:
        self._listed = self._request("GET", "memories", limit=LISTED, **conditions).data
        for number, memory in enumerate(self._listed, 1):
            held = f", {_shorten(memory.held_for)}" if memory.held_for else ""
            self._write(
                f"{number:>3}  {_shorten(memory.content)}  "
                f"({_shorten(memory.category)}{held})\n"
            )
        if not self._listed:
            self._output.write_note("there are none")

    def list_held(self, argument: str) -> None:
        """List what is remembered only once you accept it, and why."""
        self._list_memories(status="pending_review")

    def accept(self, argument: str) -> None:
        """Accept a held memory, by its number in the last list or its id, or all."""
        reviewed = self._review("accept", argument)
        self._note_review(len(reviewed.accepted), "accepted", reviewed)

    def reject(self, argument: str) -> None:
        """Reject and forget a held memory, or all."""
        reviewed = self._review("reject", argument)
        self._note_review(len(reviewed.rejected), "rejected", reviewed)

    def _review(self, decision: str, argument: str) -> Response:
        hint = f"/review, then /{decision} 2, or /{decision} all"
        chosen = argument if argument == "all" else [self._memory_id(argument, hint)]
        body = {decision: chosen}
        reviewed = self._request("POST", "memories", "review", body=body)
        if argument != "all" and not reviewed.accepted and not reviewed.rejected:
            raise ChatRefused(
                f"it could not be {decision}ed: it is not pending review any more, or "
                "you have too many rules; /review lists what is held"
            )
        return reviewed

    def _note_review(self, count: int, decided: str, reviewed: Response) -> None:
        self._output.write_note(f"{count} {decided}, {reviewed.pending_review} held")

    def forget(self, argument: str) -> None:
        """Forget a memory, by its number in the last list or its id."""
        memory_id = self._memory_id(argument, "/memories, then /forget 2")
        self._request("DELETE", "memories", memory_id)
        self._output.write_note("forgotten")

    def _memory_id(self, argument: str, hint: str) -> str:
        """Return the id of a memory that is named by it, or by its number."""
        if argument.startswith("mem_"):
            return argument
        numbers = {str(at): each.id for at, each in enumerate(self._listed, 1)}
        if argument not in numbers:
            raise ChatRefused(f"name one of the last list: {hint}")
        return numbers[argument]

    def end_session(self, argument: str) -> None:
        """End the session, with feedback if you like: 0 to 10, and a comment."""
        score, _, comment = argument.partition(" ")
        body: dict[str, Any] = {"comment": argument}
        if score[:1].isdecimal():
            if score not in SCORES:
                raise ChatRefused(
                    f"'{_shorten(score)}' is no score from 0 to 10: /end 8 Thanks. "
                    "Begin a comment without a score with a word"
                )
            body = {"score": int(score), "comment": comment}
        body["agent"] = self._agent
        self._request("POST", "threads", self.thread, "end", body=body)
        self._output.write_note("session ended")

    def switch_incognito(self, argument: str) -> None:
        """Switch whether the server reads and stores anything."""
        self._is_incognito = not self._is_incognito
        self._incognito_messages = []
        self._output.write_note(f"incognito {'on' if self._is_incognito else 'off'}")

    def switch_tools(self, argument: str) -> None:
        """Switch whether the agent's tool calls are shown after each reply."""
        if not self._shows_tools:
            # The server may hide them, which the user should learn now.
            self._request("GET", "turns", limit=1)
        self._shows_tools = not self._shows_tools
        self._output.write_note(f"tool calls {'on' if self._shows_tools else 'off'}")

    def show_help(self, argument: str) -> None:
        """List the commands."""
        for name, command in COMMANDS.items():
            usage = f"/{name}{ARGUMENTS.get(name, '')}"
            self._write(f"{usage:<18} {command.__doc__}\n")

    def quit(self, argument: str) -> None:
        """End the chat, as Ctrl-D does."""
        raise ChatEnded


COMMANDS: dict[str, Callable[[ChatSession, str], None]] = {
    "new": ChatSession.start_thread,
    "thread": ChatSession.choose_thread,
    "memories": ChatSession.list_memories,
    "forget": ChatSession.forget,
    "rules": ChatSession.list_rules,
    "review": ChatSession.list_held,
    "accept": ChatSession.accept,
    "reject": ChatSession.reject,
    "end": ChatSession.end_session,
    "incognito": ChatSession.switch_incognito,
    "tools": ChatSession.switch_tools,
    "help": ChatSession.show_help,
    "quit": ChatSession.quit,
}
ARGUMENTS = {
    "thread": " [NAME]",
    "forget": " NUMBER",
    "accept": " NUMBER|all",
    "reject": " NUMBER|all",
    "end": " [SCORE TEXT]",
}


def new_thread_name() -> str:
    return f"local-{secrets.token_hex(6)}"


def _shorten(text: str) -> str:
    return escape_and_truncate_line(text, SHOWN_LENGTH)
