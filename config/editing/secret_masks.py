"""Mask the secrets of a file for display.

`config/editing/secret_restoration.py` restores the secrets when the file is saved.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import re2
from ruamel.yaml.nodes import ScalarNode

from config import sections
from config.editing import blocks, document, round_trip
from config.editing.data_comparison import IDENTITIES
from config.editing.document import Document
from config.loading import placeholders, secret_values
from config.sections import Location, entries_of
from config.validation import schema_paths
from core.text import redaction

MASK = "\u2022" * 8
"""Plain text in YAML, and no realistic password."""
FINDER_BYTES = 64 * 1024 * 1024
"""Maximum memory of the search for all secrets of a file."""
MATCH_NOTHING = r"\z."
"""Matches no text."""

COMMENT = re.compile(r"(?:(?<=[ \t])|^)#[^\r\n]*", re.MULTILINE)
COMMENTED_FIELD = re.compile(
    r"""^\#[\s\#-]*["']?(?P<name>[\w.][\w.-]*)["']?:[ ]+"""
    r"""(?!true\b|false\b|null\b)(?P<value>[^\s{\[]\S*)(?:\s+\#.*)?$"""
)
"""A field that is commented out and may be restored."""


@lru_cache(maxsize=4)
def mask_document(doc: Document) -> Document:
    """Return a document with its secrets masked; all else is the same."""
    text = blocks.apply_edits(doc.text, _mask_edits(doc))
    return document.parse_document(doc.encode_text(text), doc.file)


def _mask_edits(doc: Document) -> Iterator[blocks.Edit]:
    secrets = dict(_find_secrets(doc))
    finder = _compile_finder(
        literal
        for text in secrets.values()
        for literal in _literals(text)
        if len(literal) >= redaction.MIN_CHARS
    )
    secrets |= dict(_find_repetitions(doc, finder))
    # An alias has the span of its anchor.
    for span, text in {doc.span_of(at): text for at, text in secrets.items()}.items():
        masked = _mask(text)
        if masked != text:
            yield *span, _render_scalar(masked, original=doc.text[slice(*span)])
    for start, comment in iter_comments(doc):
        masked = _mask_comment(comment, finder)
        if masked != comment:
            yield start, start + len(comment), masked


def _compile_finder(literals: Iterable[str]) -> re2._Regexp:
    """Return a pattern that finds any of many texts in one pass, the longest first."""
    options = re2.Options()
    options.log_errors, options.max_mem = False, FINDER_BYTES
    longest_first = sorted(set(literals), key=len, reverse=True)
    pattern = "|".join(re2.escape(text) for text in longest_first)
    finder = re2.compile(pattern or MATCH_NOTHING, options)
    re2.purge()  # A cache would retain the pattern and its secrets.
    return finder


# Which values are secrets.


def _find_secrets(doc: Document) -> Iterator[tuple[Location, str]]:
    """Yield each scalar that is a secret by schema, name or content, as text."""
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
    if isinstance(value, dict | list):
        before: Any = None
        for step, child in entries_of(value):
            below = schema_paths.child_nodes(schema, nodes, step) or _secret_nodes(
                nodes
            )
            if isinstance(step, str):
                free = not schema_paths.declares(nodes, step)
            else:
                free = is_free
                if _is_text(child, below) and _follows_secret_option(before, child):
                    yield (*location, step), str(child)
            yield from _find_secrets_in(
                child, (*location, step), below, schema, is_free=free
            )
            before = child
    elif value is not None and (
        _secret_nodes(nodes)
        or (_is_text(value, nodes) and _is_secret(location, str(value), is_free))
    ):
        yield location, str(value)


def _secret_nodes(nodes: list[schema_paths.Schema]) -> list[schema_paths.Schema]:
    """Return the nodes that mark a secret; if the data is invalid, all below is one."""
    return [node for node in nodes if node.get("writeOnly") is True]


def _is_text(value: Any, nodes: list[schema_paths.Schema]) -> bool:
    """Return whether a value is text, or a number or boolean that becomes text."""
    if isinstance(value, int | float):
        return any(node.get("type") == "string" for node in nodes)
    return isinstance(value, str)


def _follows_secret_option(option: Any, argument: Any) -> bool:
    """Return whether the previous argument marks this one as secret: `--password`."""
    text = str(argument)
    if not isinstance(option, str):
        return False
    is_named = option.startswith("-") and "=" not in option
    is_value = bool(text) and not text.startswith("-")
    return is_named and is_value and secret_values.is_secret(option, text)


def _is_secret(location: Location, text: str, is_free: bool) -> bool:
    names = [step for step in location if isinstance(step, str)]
    if names[-1] in IDENTITIES:
        return False  # How masks are made distinct.
    if is_free and secret_values.is_secret(names[-1], text):
        return True
    return redaction.redact_patterns(text) != text


def _find_repetitions(
    doc: Document, finder: re2._Regexp
) -> Iterator[tuple[Location, str]]:
    """Yield scalars that contain another value's secret, as text."""
    for location, node in doc.nodes.items():
        if not isinstance(node, ScalarNode) or location[-1] in IDENTITIES:
            continue
        text = placeholders.reveal(node.value)
        if finder.search(text.encode(errors="replace")):
            yield location, text


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
    for start, stop in placeholders.spans(text):
        if text[start] == "$" != text[start + 1] and text[stop - 1] == "}":
            pieces += [text[end:start], text[start:stop]]
            end = stop
    return [*pieces, text[end:]]


def _mask_default(placeholder: str) -> str:
    default = _placeholder_default(placeholder)
    masked = placeholder.removesuffix(f"{default}}}") + f"{MASK}}}"
    return masked if default else placeholder


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


# Comments.


def iter_comments(doc: Document) -> Iterator[tuple[int, str]]:
    """Yield each comment and its start."""
    blank = list(doc.text)
    for node in document.iter_scalars(doc.source.root):
        for index in range(*document.scalar_span(doc.text, node)):
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


def _render_scalar(text: str, *, original: str) -> str:
    """Return a text as a one-line scalar that is valid in any context."""
    rendered = round_trip.dump_flow(text)
    is_quoted = original[:1] in ("'", '"') and not {'"', "\\"} & {*text}
    if rendered == text and "${" in text and is_quoted:
        # Other YAML parsers read a placeholder's brace as the map's.
        return f'"{text}"'
    return rendered
