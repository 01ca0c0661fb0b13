"""Text as it is kept: whole characters that every database takes, and not too many."""

TRUNCATION_MARK = "… (cut: {size} bytes)"
MAX_NAME_LENGTH = 255
"""Characters of a name."""


def truncate_payload(text: str, most_bytes: int) -> str:
    """Return what is kept of a text: as much as fits, and a word where it was cut.

    NUL characters and halves of characters, which models and tools do send, become
    U+FFFD.
    """
    text = make_storable(text)
    if len(text) * 4 <= most_bytes or (text.isascii() and len(text) <= most_bytes):
        return text
    data = text.encode()
    if len(data) <= most_bytes:
        return text
    mark = TRUNCATION_MARK.format(size=len(data))
    kept = data[: most_bytes - len(mark.encode())]
    # What is left of a character at the end goes.
    return kept.decode(errors="ignore") + mark


def truncate_name(text: str, most: int = MAX_NAME_LENGTH) -> str:
    """Return a name as a column of so many characters holds it."""
    return make_storable(text[:most])


def make_storable(text: str) -> str:
    """Return a text that PostgreSQL and UTF-8 take."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # By way of UTF-16, in which two halves that belong together are one again.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
