"""Check submitted entries before they are validated in full or stored."""

from typing import Any

from config import errors
from config.editing.secret_masks import MASK
from config.errors import ConfigInvalid
from config.loading import overlay_merge
from config.loading.constructor import verbatim_tree
from config.loading.reader import MAX_BYTES
from config.sections import Position, Problem, Section

MAX_NAME_LENGTH = 255
RESERVED = {"check", "new", "runs", ".", ".."}
"""Names that would hide a page of the studio."""
ACTIONS = {"check", "edit", "past", "reset", "results", "retry", "runs", "scores"}
"""Last parts of a name with slashes that would hide a page about an entry."""
MASKED = (
    "the text contains a mask instead of a secret; write the secret itself, or a "
    "placeholder such as ${NAME}"
)


def problem_labels(section: Section[Any], name: str | None) -> list[str]:
    """Return the labels of problems in this entry rather than in another one."""
    unnamed = entry_label(section, None)
    return [unnamed] if name is None else [unnamed, entry_label(section, name)]


def check_not_reserved(section: Section[Any], name: str) -> None:
    """Raise `ConfigInvalid` for a name whose URL is another page of the studio."""
    _, slash, end = name.rpartition("/")
    if name in RESERVED or (slash and end in ACTIONS):
        message = f"the name '{name}' is reserved for a page of the studio"
        raise entry_error(section, name, f"{message}; choose another")


def normalize_text(text: str) -> str:
    """Return a text for storage: plain line breaks, also after the last line."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text if text.endswith("\n") else f"{text}\n"


def read_name(section: Section[Any], text: str, *, expected: str | None = None) -> str:
    """Return the name in an entry; raises `ConfigInvalid` if there is none."""

    def error(message: str, code: str = errors.WRONG_VALUE) -> ConfigInvalid:
        return entry_error(section, expected, message, code)

    if len(text.encode()) > MAX_BYTES:
        raise error("the entry is larger than 1 MiB", errors.TOO_LARGE)
    if MASK in text:
        raise error(MASKED, errors.MASKED)
    label = entry_label(section, expected)
    source = overlay_merge.parse_entry(normalize_text(text), label)
    tree = verbatim_tree(source)
    named = tree.entries(source.root, ()).get("name")
    value = None if named is None else tree.value(named, ())
    subject = f"{section.noun}: 'name'"
    if named is None or value is None or value == "":
        hint = f"; add 'name: {expected}'" if expected else ""
        raise error(f"{subject} is missing{hint}", errors.MISSING)
    name = tree.text(named)
    if name is None:
        raise error(f"{subject} must be text")
    if len(name) > MAX_NAME_LENGTH or not name.isprintable():
        limit = f"one line of at most {MAX_NAME_LENGTH} characters"
        raise error(f"{subject} must be {limit}")
    return name


def check_name(section: Section[Any], name: str, text: str) -> str:
    """Return the name from the URL; raises `ConfigInvalid` if the entry has another."""
    own = read_name(section, text, expected=name)
    if own == name:
        return name
    message = (
        f"the name is '{own}', but '{name}' in the URL; to rename an entry, create a "
        "new one and delete this one"
    )
    raise entry_error(section, name, message, errors.NAME_MISMATCH)


def entry_label(section: Section[Any], name: str | None) -> str:
    """Return the label of an entry that may have no name yet."""
    if name is None:
        return f"new {section.noun}"
    return overlay_merge.override_label(section, name)


def entry_error(
    section: Section[Any],
    name: str | None,
    message: str,
    code: str = errors.WRONG_VALUE,
) -> ConfigInvalid:
    """Return an error about an entry as a whole."""
    position = Position(entry_label(section, name), 1, 1)
    return ConfigInvalid([Problem((), message, code, position)])
