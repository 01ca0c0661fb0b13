"""Make invisible characters of external text visible."""

from unicodedata import category

HARMLESS = "\n\t\u200c\u200d"
"""Unprintable characters that a terminal may receive: lines, tabs, joiners."""
MAX_QUOTED = 100
"""Characters of external text that a message quotes."""


def escape_invisible(text: str) -> str:
    """Return a text with invisible characters escaped: `\\n`, `\\x1b`, `\\u202e`.

    So no character starts a line, moves a cursor or reverses the text direction.
    """
    # Nearly all texts need no change, and this check is fast.
    return text if text.isprintable() else "".join(map(_escape_character, text))


def escape_for_terminal(text: str) -> str:
    """Return a text of several lines, or a part of one, that cannot control a terminal.

    Lines, tabs, spaces of all kinds and the joiners of Persian, Hindi and emoji stay.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each in HARMLESS or category(each) == "Zs" else _escape_character(each)
        for each in text.replace("\r", "")
    )


def escape_and_truncate(text: str, max_length: int = MAX_QUOTED) -> str:
    """Return a client's text in a form that an error message may quote.

    Control characters are escaped. A longer text is cut and ends in "…". The text is
    cut before the escape, so the cost does not depend on its length.
    """
    return truncate(escape_invisible(text[: max_length + 1]), max_length)


def truncate(text: str, max_length: int) -> str:
    """Return a text of at most `max_length` characters; "…" replaces the rest."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def truncate_middle(text: str, max_length: int) -> str:
    """Return a text cut in the middle: the end of an error often names the cause."""
    if len(text) <= max_length:
        return text
    half = max_length // 2
    return f"{text[:half]} … {text[-half:]}"


def shorten_middle(text: str, max_length: int) -> str:
    """Return about `max_length` characters: two thirds of them are the beginning."""
    if len(text) <= max_length:
        return text
    head = max_length * 2 // 3
    return f"{text[:head]} […] {text[head - max_length :]}"


def escape_and_truncate_line(text: str, max_length: int) -> str:
    """Return a text as one line for a terminal; a longer one is cut and ends in "…"."""
    # Cut first, so the cost does not depend on the length.
    line = " ".join(text[: 2 * max_length].split())
    is_cut = len(line) > max_length or len(text) > 2 * max_length
    return escape_invisible(line[:max_length]) + ("…" if is_cut else "")


def escape_and_truncate_middle(text: str) -> str:
    """Return an error that quotes a client, escaped and cut in the middle."""
    return escape_and_truncate(truncate_middle(text, MAX_QUOTED - 3))


def _escape_character(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
