"""Mask the secrets of a file for display.

`config/editing/secret_restoration.py` restores the secrets when the file is saved.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from config import sections
from config.editing.round_trip import data_merge, serializer, text_edits
from config.editing.round_trip.document import Document
from config.loading import placeholders, secret_values
from config.sections import Location
from config.validation import schema_paths
from core.text import redaction

MASK = "\u2022" * 8
"""Plain text in YAML, and no realistic password."""
FINDER_BYTES = 64 * 1024 * 1024
"""Maximum memory of the search for all secrets of a file."""
MATCH_NOTHING = r"\z."
"""Matches no text."""

TOKEN = re.compile(r"\$\{[^}\r\n]*(?P<closing>\})?")
"""A placeholder; an unclosed one rules out others on the rest of the line."""
COMMENT = re.compile(r"(?:(?<=[ \t])|^)#[^\r\n]*", re.MULTILINE)
COMMENTED_FIELD = re.compile(
    r"""^\#[\s\#-]*["']?(?P<name>[\w.][\w.-]*)["']?:[ ]+"""
    r"""(?!true\b|false\b|null\b)(?P<value>[^\s{\[]\S*)(?:\s+\#.*)?$"""
)
"""A field that is commented out and may be restored."""


@dataclass(frozen=True, eq=False)
class SecretMasks:
    """The masked secrets of one file content."""

    values: Mapping[Location, str]
    """The mask of each secret."""
    spans: Mapping[tuple[int, int], str]
    """The same masks by the span of each secret in the text."""
    comments: Mapping[int, tuple[str, str]]
    """Comments with secrets, by start: original and masked text."""


@lru_cache(maxsize=4)
def find_masks(doc: Document) -> SecretMasks:
    """Return the masks of a document."""
    secrets = dict(_find_secrets(doc))
    finder = _compile_finder(
        literal
        for location in secrets
        for literal in _literals(_scalar_text(doc, location))
        if len(literal) >= redaction.MIN_CHARS
    )
    secrets |= dict(_find_repetitions(doc, finder))
    spans = {_value_span(doc, location): text for location, text in secrets.items()}
    values = {
        location: spans[span]
        for location in doc.entries
        if (span := _value_span(doc, location)) in spans
    }
    return SecretMasks(values, spans, dict(_find_secret_comments(doc, finder)))


def _compile_finder(literals: Iterable[str]) -> re2._Regexp:
    """Return a pattern that finds any of many texts in one pass, the longest first."""
    options = re2.Options()
    options.log_errors, options.max_mem = False, FINDER_BYTES
    longest_first = sorted(set(literals), key=len, reverse=True)
    pattern = "|".join(re2.escape(text) for text in longest_first)
    finder = re2.compile(pattern or MATCH_NOTHING, options)
    re2.purge()  # A cache would retain the pattern and its secrets.
    return finder


def _value_span(doc: Document, location: Location) -> tuple[int, int]:
    """Return a value's span in the text: for an alias, its target's."""
    value = doc.resolve_alias(doc.entries[location]).value
    return value.start, value.end


# Which values are secrets.


def _find_secrets(doc: Document) -> Iterator[tuple[Location, str]]:
    """Yield each scalar that is a secret by schema, name or content, and its mask."""
    registered = sections.registered_sections()
    for key, value in doc.data.items():
        section = registered.get(key)
        schema = section.schema if section else {}
        nodes = schema_paths.root_nodes(schema)
        yield from _find_secrets_in(value, (key,), nodes, schema, is_free=not section)


def _find_secrets_in(
    value: Any,
    location: Location,
    nodes: list[schema_paths.Schema],
    schema: schema_paths.Schema,
    *,
    is_free: bool,
) -> Iterator[tuple[Location, str]]:
    """Yield the secrets in a value; a free-form value has user-chosen names."""
    before: Any = None
    for step, child in _entries(value):
        below = schema_paths.child_nodes(schema, nodes, step) or _secret_nodes(nodes)
        is_item = isinstance(step, int)
        free = is_free if is_item else not schema_paths.declares(nodes, step)
        if isinstance(step, int) and _follows_secret_option(before, child):
            yield (*location, step), _mask(child)
        else:
            yield from _find_secrets_in(
                child, (*location, step), below, schema, is_free=free
            )
        before = child
    if value is None or isinstance(value, dict | list):
        return
    text = str(value)
    if _secret_nodes(nodes) or (
        isinstance(value, str) and _is_secret(location, text, is_free)
    ):
        hidden = _mask(text)
        if hidden != text:
            yield location, hidden


def _secret_nodes(nodes: list[schema_paths.Schema]) -> list[schema_paths.Schema]:
    """Return the nodes that mark a secret; if the data is invalid, all below is one."""
    return [node for node in nodes if node.get("writeOnly") is True]


def _follows_secret_option(option: Any, argument: Any) -> bool:
    """Return whether the previous argument marks this one as secret: `--password`."""
    if not isinstance(option, str) or not isinstance(argument, str):
        return False
    is_named = option.startswith("-") and "=" not in option
    is_value = bool(argument) and not argument.startswith("-")
    hidden = is_named and is_value and secret_values.is_secret(option, argument)
    return hidden and _mask(argument) != argument


def _entries(value: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _is_secret(location: Location, text: str, is_free: bool) -> bool:
    names = [step for step in location if isinstance(step, str)]
    if names[-1] in data_merge.IDENTITIES:
        return False  # How masks are made distinct.
    if is_free and secret_values.is_secret(names[-1], text):
        return True
    return redaction.redact_patterns(text) != text


def _find_repetitions(
    doc: Document, finder: re2._Regexp
) -> Iterator[tuple[Location, str]]:
    """Yield scalars that contain another value's secret."""
    for location, entry in doc.entries.items():
        text = placeholders.reveal(entry.value.text)
        is_name = bool(location) and location[-1] in data_merge.IDENTITIES
        is_free = entry.value.kind == "scalar" and not is_name
        if is_free and finder.search(text.encode(errors="replace")):
            yield location, _mask(text)


def _mask(text: str) -> str:
    """Return a secret's mask: its placeholders, and a word such as Bearer, stay
    visible.
    """
    pieces = _split_placeholders(text)
    if len(pieces) == 1:
        return MASK if text else text
    return "".join(
        _mask_default(piece) if index % 2 else _mask_literal(piece)
        for index, piece in enumerate(pieces)
    )


def _split_placeholders(text: str) -> list[str]:
    """Split a text; every second piece is a placeholder."""
    pieces, end = [], 0
    for match in TOKEN.finditer(text):
        if match["closing"]:
            pieces += [text[end : match.start()], match[0]]
            end = match.end()
    return [*pieces, text[end:]]


def _mask_default(placeholder: str) -> str:
    default = _placeholder_default(placeholder)
    return (
        placeholder.removesuffix(f"{default}}}") + f"{MASK}}}"
        if default
        else placeholder
    )


def _placeholder_default(placeholder: str) -> str:
    return placeholder[:-1].partition(":-")[2]


def _mask_literal(piece: str) -> str:
    word = piece.strip()
    if not word or word.lower() in secret_values.SCHEMES:
        return piece
    return piece.replace(word, MASK)


def _literals(text: str) -> Iterator[str]:
    """Yield the parts of a secret that the file itself contains."""
    for index, piece in enumerate(_split_placeholders(text)):
        word = _placeholder_default(piece) if index % 2 else piece.strip()
        scheme, _, rest = word.partition(" ")
        yield rest if scheme.lower() in secret_values.SCHEMES else word


def _scalar_text(doc: Document, location: Location) -> str:
    return str(value_at(doc.data, location))


def value_at(data: Any, location: Location) -> Any:
    """Return the value at a location; raises `LookupError` if there is none."""
    for step in location:
        if not isinstance(data, dict if isinstance(step, str) else list):
            raise LookupError(step)
        data = data[step]  # type: ignore[index]
    return data


# Comments.


def _find_secret_comments(
    doc: Document, finder: re2._Regexp
) -> Iterator[tuple[int, tuple[str, str]]]:
    for start, comment in iter_comments(doc):
        shown = _mask_comment(comment, finder)
        if shown != comment:
            yield start, (comment, shown)


def iter_comments(doc: Document) -> Iterator[tuple[int, str]]:
    """Yield each comment and its start."""
    blank = list(doc.text)
    for entry in doc.source_map.walk():
        for node in (entry.key, entry.value):
            if node is not None and node.kind == "scalar":
                for index in range(node.start, node.end):
                    if blank[index] not in "\r\n":
                        blank[index] = "x"
    for match in COMMENT.finditer("".join(blank)):
        yield match.start(), doc.text[match.start() : match.end()]


def _mask_comment(comment: str, finder: re2._Regexp) -> str:
    comment = str(finder.sub(lambda _: MASK, comment))
    field = COMMENTED_FIELD.match(comment)
    if field and secret_values.SECRET_NAME.search(field["name"]):
        start, end = field.span("value")
        comment = comment[:start] + _mask(field["value"]) + comment[end:]
    return redaction.redact_patterns(comment).replace(redaction.REDACTED, MASK)


# Masked output.


def masked_content(doc: Document) -> bytes:
    """Return the content with its secrets masked."""
    return doc.encode_text(text_edits.apply_edits(doc.text, mask_edits(doc)))


def mask_edits(doc: Document) -> list[text_edits.Edit]:
    """Return the edits that mask a content's secrets."""
    hidden = find_masks(doc)
    values = [
        (start, end, _render_scalar(text, original=doc.text[start:end]))
        for (start, end), text in hidden.spans.items()
    ]
    comments = [
        (start, start + len(comment), text)
        for start, (comment, text) in hidden.comments.items()
    ]
    return values + comments


def _render_scalar(text: str, *, original: str) -> str:
    """Return a text as a one-line scalar that is valid in any context."""
    rendered = serializer.dump_flow(text)
    is_quoted = original[:1] in ("'", '"') and not {'"', "\\"} & {*text}
    if rendered == text and "${" in text and is_quoted:
        # Other YAML parsers read a placeholder's brace as the map's.
        return f'"{text}"'
    return rendered


def masked_data(doc: Document) -> dict[str, Any]:
    """Return a document's data with its secrets masked."""
    masked: dict[str, Any] = _replace_values(doc.data, (), find_masks(doc).values)
    return masked


def _replace_values(
    value: Any, location: Location, replacements: Mapping[Location, str]
) -> Any:
    if isinstance(value, dict):
        return {
            key: _replace_values(it, (*location, key), replacements)
            for key, it in value.items()
        }
    if isinstance(value, list):
        return [
            _replace_values(it, (*location, index), replacements)
            for index, it in enumerate(value)
        ]
    return replacements.get(location, value)
