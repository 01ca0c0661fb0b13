"""Lines that a user types at a terminal, or that a script sends."""

import sys
from collections.abc import Collection, Iterator

from core.errors import Invalid

MAX_LINE_BYTES = 1024 * 1024
PROMPT = "> "


def read_typed_lines(commands: Collection[str]) -> Iterator[str]:
    """Yield lines until Ctrl-D; Ctrl-C discards the current one."""
    # Only here: it takes 100 ms to import.
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter

    completer = WordCompleter([f"/{name}" for name in commands], sentence=True)
    session: PromptSession[str] = PromptSession(
        PROMPT, completer=completer, complete_while_typing=False
    )
    while True:
        try:
            yield session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def read_piped_lines() -> Iterator[str]:
    """Yield the lines of stdin; raises `Invalid` for one that is too long."""
    # Bytes, because text of another encoding would end the program.
    stream = sys.stdin.buffer
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise Invalid(f"a line of stdin has more than {MAX_LINE_BYTES} bytes")
        yield line.decode(errors="replace").rstrip("\r\n")
