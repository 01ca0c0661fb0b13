"""Text from outside, made so that it is seen as it is."""


def visible(text: str) -> str:
    """Return a text with what cannot be seen written out: `\\n`, `\\x1b`, `\\u202e`.

    So nothing begins a line, moves a cursor or turns the direction of what follows.
    """
    # Nearly every text is left as it is, which takes no time to see.
    return text if text.isprintable() else "".join(map(_written_out, text))


def _written_out(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
