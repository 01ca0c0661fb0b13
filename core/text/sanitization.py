"""Text from outside, made so that it is seen as it is."""

MAX_QUOTED = 100
"""Characters of a stranger's text that a message repeats."""


def escape_invisible(text: str) -> str:
    """Return a text with what cannot be seen written out: `\\n`, `\\x1b`, `\\u202e`.

    So nothing begins a line, moves a cursor or turns the direction of what follows.
    """
    # Nearly every text is left as it is, which takes no time to see.
    return text if text.isprintable() else "".join(map(_escape_character, text))


def escape_and_truncate(text: str, most: int = MAX_QUOTED) -> str:
    """Return a client's text as an error message may quote it.

    Control characters are escaped, and the result has at most `most` characters: a
    longer text is cut, and ends in "…". The text is cut before it is looked at, so
    the cost does not depend on its length.
    """
    escaped = escape_invisible(text[: most + 1])
    return escaped if len(escaped) <= most else f"{escaped[: most - 1]}…"


def truncate_middle(text: str, most: int) -> str:
    """Return a text cut to about `most` characters; the end says what is wrong."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} … {text[-half:]}"


def escape_and_truncate_middle(text: str) -> str:
    """Return an error that quotes a client, as `shortened`, without its middle."""
    return escape_and_truncate(truncate_middle(text, MAX_QUOTED - 3))


def _escape_character(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
