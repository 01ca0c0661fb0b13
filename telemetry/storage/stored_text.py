"""Text in storable form: valid characters only, and of limited length."""

TRUNCATION_MARK = "… (cut: {size} bytes)"
MAX_NAME_LENGTH = 255
"""Maximum characters of a name."""


def truncate_payload(text: str, max_bytes: int) -> str:
    """Return a text cut to `max_bytes`, with a marker at the cut.

    NUL characters and lone surrogates, which models and tools do send, become U+FFFD.
    """
    text = make_storable(text)
    if len(text) * 4 <= max_bytes or (text.isascii() and len(text) <= max_bytes):
        return text
    data = text.encode()
    if len(data) <= max_bytes:
        return text
    mark = TRUNCATION_MARK.format(size=len(data))
    beginning = data[: max_bytes - len(mark.encode())]
    # Drops a partial character at the end.
    return beginning.decode(errors="ignore") + mark


def truncate_name(text: str, max_length: int = MAX_NAME_LENGTH) -> str:
    """Return a name that fits a column of `max_length` characters."""
    return make_storable(text[:max_length])


def make_storable(text: str) -> str:
    """Return a text that PostgreSQL and UTF-8 accept."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16, which joins surrogate pairs.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
