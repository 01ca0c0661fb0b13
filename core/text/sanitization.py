"""Make invisible characters of external text visible."""

MAX_QUOTED = 100
"""Characters of external text that a message quotes."""


def escape_invisible(text: str) -> str:
    """Return a text with invisible characters escaped: `\\n`, `\\x1b`, `\\u202e`.

    So no character starts a line, moves a cursor or reverses the text direction.
    """
    # Nearly all texts need no change, and this check is fast.
    return text if text.isprintable() else "".join(map(_escape_character, text))


def escape_and_truncate(text: str, most: int = MAX_QUOTED) -> str:
    """Return a client's text as an error message may quote it.

    Control characters are escaped, and the result has at most `most` characters: a
    longer text is cut and ends in "…". The text is cut before the escape, so the cost
    does not depend on its length.
    """
    escaped = escape_invisible(text[: most + 1])
    return escaped if len(escaped) <= most else f"{escaped[: most - 1]}…"


def truncate_middle(text: str, most: int) -> str:
    """Return a text cut in the middle, as the end of an error names the cause."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} … {text[-half:]}"


def escape_and_truncate_middle(text: str) -> str:
    """Return an error that quotes a client, escaped and cut in the middle."""
    return escape_and_truncate(truncate_middle(text, MAX_QUOTED - 3))


def _escape_character(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
