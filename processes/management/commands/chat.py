"""`coulisse chat`: talks to an agent of the running server."""

import os
import signal
import sys
from argparse import ArgumentTypeError
from contextlib import closing
from typing import Any

from django.core.management.base import CommandError, CommandParser

from config.management.base import ConfigCommand
from core.errors import CoulisseError
from processes.server.running_server import require_running
from processes.supervision import state_directory
from processes.terminal_chat import line_input
from processes.terminal_chat.chat_api import ChatApi, ChatRefused, ServerUnreachable
from processes.terminal_chat.chat_session import COMMANDS, ChatEnded, ChatSession


class Command(ConfigCommand):
    """A client of `/v1` without rights of its own; it reads no table and no YAML."""

    help = (
        "Chat with an agent of the running server. Reads lines from stdin if that is "
        "not a terminal."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "agent", nargs="?", help="The agent (default: the server's first)."
        )
        parser.add_argument(
            "--user",
            type=parse_text,
            help="Whose memory is used (default: a guest, known in this thread only).",
        )
        parser.add_argument(
            "--thread",
            type=parse_text,
            help="The thread to continue (default: a new one).",
        )
        parser.add_argument(
            "--token",
            type=parse_text,
            default=os.environ.get("COULISSE_TOKEN"),
            help="The API token (default: $COULISSE_TOKEN, which other users of "
            "this machine do not see).",
        )
        parser.add_argument(
            "--url", help="The server's address (default: that of the running server)."
        )

    def handle(self, **options: Any) -> None:
        user, url = options["user"], options["url"]
        if url is None:
            url = require_running(state_directory.current_state()).url
        with closing(ChatApi(url, token=options["token"])) as api:
            agent = choose_agent(api, options["agent"], user)
            session = ChatSession(
                api, self, agent=agent, user=user, thread=options["thread"]
            )
            if sys.stdin.isatty() and self.stdout.isatty():
                self.write_note(
                    f"{agent}, thread {session.thread}; /help lists the commands"
                )
                self._answer_user(session)
            else:
                self._answer_script(session)

    def _answer_user(self, session: ChatSession) -> None:
        """Answer what is typed; errors and Ctrl-C end a reply, not the chat."""
        # Programs that scripts start in the background ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for line in line_input.read_typed_lines(COMMANDS):
            try:
                session.handle(line)
            except ChatEnded:
                return
            except CoulisseError as exc:
                self.stderr.write(str(exc))
            except KeyboardInterrupt:
                self.write_note("cancelled")

    def _answer_script(self, session: ChatSession) -> None:
        """Answer the lines of stdin; raises CommandError if one was refused."""
        refused = 0
        for line in line_input.read_piped_lines():
            try:
                session.handle(line)
            except ChatEnded:
                break
            except ServerUnreachable:
                raise
            except CoulisseError as exc:
                self.stderr.write(str(exc))
                refused += 1
        if refused:
            raise CommandError(f"lines that were not answered: {refused}")


def parse_text(text: str) -> str:
    """Return an option's value; raises ArgumentTypeError."""
    if not text.strip() or not text.isprintable():
        raise ArgumentTypeError("is empty or has control characters")
    return text.strip()


def choose_agent(api: ChatApi, name: str | None, user: str | None) -> str:
    """Return this agent, or the first one; raises `ChatRefused`."""
    if name is not None:
        return api.request("GET", "models", name, user=user).id
    agents = api.request("GET", "models", user=user).data
    if not agents:
        raise ChatRefused("the server has no agent for this caller")
    return agents[0].id
