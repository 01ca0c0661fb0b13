"""Secrets of a file, hidden from who looks at it.

What of them comes back with a save, `config/editing/secret_restoration.py` knows.
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
"""Plain text to YAML; nobody's password."""
FINDER_BYTES = 64 * 1024 * 1024
"""Memory that the search for all secrets of a file may take at most."""
MATCH_NOTHING = r"\z."
"""Matches no text."""

TOKEN = re.compile(r"\$\{[^}\r\n]*(?P<closing>\})?")
"""A placeholder; without its `}` there is none on the rest of the line."""
COMMENT = re.compile(r"(?:(?<=[ \t])|^)#[^\r\n]*", re.MULTILINE)
COMMENTED_FIELD = re.compile(
    r"""^\#[\s\#-]*["']?(?P<name>[\w.][\w.-]*)["']?:[ ]+"""
    r"""(?!true\b|false\b|null\b)(?P<value>[^\s{\[]\S*)(?:\s+\#.*)?$"""
)
"""A field that was taken out of force, and may be put back."""


@dataclass(frozen=True, eq=False)
class SecretMasks:
    """What is hidden in one content of a file."""

    values: Mapping[Location, str]
    """What is shown in place of each secret."""
    spans: Mapping[tuple[int, int], str]
    """The same by the first and last characters of where it is written."""
    comments: Mapping[int, tuple[str, str]]
    """Where comments with secrets begin: as they are, as they are shown."""


@lru_cache(maxsize=4)
def find_masks(doc: Document) -> SecretMasks:
    """Return what is hidden in a document."""
    secrets = dict(_find_secrets(doc))
    known = _compile_finder(
        literal
        for location in secrets
        for literal in _literals(_scalar_text(doc, location))
        if len(literal) >= redaction.MIN_CHARS
    )
    secrets |= dict(_find_repetitions(doc, known))
    spans = {_value_span(doc, place): text for place, text in secrets.items()}
    values = {
        place: spans[span]
        for place in doc.entries
        if (span := _value_span(doc, place)) in spans
    }
    return SecretMasks(values, spans, dict(_find_secret_comments(doc, known)))


def _compile_finder(literals: Iterable[str]) -> re2._Regexp:
    """Return what finds any of many texts in one pass, the longest first."""
    options = re2.Options()
    options.log_errors, options.max_mem = False, FINDER_BYTES
    longest_first = sorted(set(literals), key=len, reverse=True)
    known = "|".join(re2.escape(text) for text in longest_first)
    finder = re2.compile(known or MATCH_NOTHING, options)
    re2.purge()  # Which would keep it, and the secrets in it.
    return finder


def _value_span(doc: Document, location: Location) -> tuple[int, int]:
    """Return where a value is written: for an alias, where what it stands for is."""
    value = doc.resolve_alias(doc.entries[location]).value
    return value.start, value.end


# Which places hold secrets.


def _find_secrets(doc: Document) -> Iterator[tuple[Location, str]]:
    """Yield each scalar that is one by its shape, name or look, and its mask."""
    known = sections.registered_sections()
    for key, value in doc.data.items():
        section = known.get(key)
        schema = section.schema if section else {}
        nodes = schema_paths.root_nodes(schema)
        yield from _find_secrets_in(value, (key,), nodes, schema, is_free=not section)


def _find_secrets_in(
    value: Any,
    place: Location,
    nodes: list[schema_paths.Schema],
    schema: schema_paths.Schema,
    *,
    is_free: bool,
) -> Iterator[tuple[Location, str]]:
    """Yield the secrets in a value; in one that is free, names are anyone's."""
    before: Any = None
    for step, child in _entries(value):
        below = schema_paths.child_nodes(schema, nodes, step) or _secret_nodes(nodes)
        is_item = isinstance(step, int)
        free = is_free if is_item else not schema_paths.declares(nodes, step)
        if isinstance(step, int) and _follows_secret_option(before, child):
            yield (*place, step), _mask(child)
        else:
            yield from _find_secrets_in(
                child, (*place, step), below, schema, is_free=free
            )
        before = child
    if value is None or isinstance(value, dict | list):
        return
    text = str(value)
    if _secret_nodes(nodes) or (
        isinstance(value, str) and _is_secret(place, text, is_free)
    ):
        hidden = _mask(text)
        if hidden != text:
            yield place, hidden


def _secret_nodes(nodes: list[schema_paths.Schema]) -> list[schema_paths.Schema]:
    """Return what says that a place is a secret; all below one is, if it is wrong."""
    return [node for node in nodes if node.get("writeOnly") is True]


def _follows_secret_option(option: Any, argument: Any) -> bool:
    """Return whether an argument is a secret by the one before it: `--password`."""
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


def _is_secret(place: Location, text: str, is_free: bool) -> bool:
    names = [step for step in place if isinstance(step, str)]
    if names[-1] in data_merge.IDENTITIES:
        return False  # By which masks are told apart.
    if is_free and secret_values.is_secret(names[-1], text):
        return True
    return redaction.redact_patterns(text) != text


def _find_repetitions(
    doc: Document, known: re2._Regexp
) -> Iterator[tuple[Location, str]]:
    """Yield scalars with a secret of another place in them."""
    for place, entry in doc.entries.items():
        text = placeholders.reveal(entry.value.text)
        is_name = bool(place) and place[-1] in data_merge.IDENTITIES
        is_free = entry.value.kind == "scalar" and not is_name
        if is_free and known.search(text.encode(errors="replace")):
            yield place, _mask(text)


def _mask(text: str) -> str:
    """Return what is shown of a secret: its placeholders, and a word such as Bearer."""
    pieces = _split_placeholders(text)
    if len(pieces) == 1:
        return MASK if text else text
    return "".join(
        _mask_default(piece) if index % 2 else _mask_literal(piece)
        for index, piece in enumerate(pieces)
    )


def _split_placeholders(text: str) -> list[str]:
    """Return a text in pieces, of which each second one is a placeholder."""
    pieces, end = [], 0
    for found in TOKEN.finditer(text):
        if found["closing"]:
            pieces += [text[end : found.start()], found[0]]
            end = found.end()
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
    """Yield what of a secret is in the file itself."""
    for index, piece in enumerate(_split_placeholders(text)):
        word = _placeholder_default(piece) if index % 2 else piece.strip()
        scheme, _, rest = word.partition(" ")
        yield rest if scheme.lower() in secret_values.SCHEMES else word


def _scalar_text(doc: Document, location: Location) -> str:
    return str(value_at(doc.data, location))


def value_at(data: Any, location: Location) -> Any:
    """Return what data has at a place; raises `LookupError` when it has none."""
    for step in location:
        if not isinstance(data, dict if isinstance(step, str) else list):
            raise LookupError(step)
        data = data[step]  # type: ignore[index]
    return data


# Comments.


def _find_secret_comments(
    doc: Document, known: re2._Regexp
) -> Iterator[tuple[int, tuple[str, str]]]:
    for start, comment in iter_comments(doc):
        shown = _mask_comment(comment, known)
        if shown != comment:
            yield start, (comment, shown)


def iter_comments(doc: Document) -> Iterator[tuple[int, str]]:
    """Yield each comment and where it begins."""
    blank = list(doc.text)
    for entry in doc.source_map.walk():
        for node in (entry.key, entry.value):
            if node is not None and node.kind == "scalar":
                for index in range(node.start, node.end):
                    if blank[index] not in "\r\n":
                        blank[index] = "x"
    for found in COMMENT.finditer("".join(blank)):
        yield found.start(), doc.text[found.start() : found.end()]


def _mask_comment(comment: str, known: re2._Regexp) -> str:
    comment = str(known.sub(lambda _: MASK, comment))
    field = COMMENTED_FIELD.match(comment)
    if field and secret_values.SECRET_NAME.search(field["name"]):
        start, end = field.span("value")
        comment = comment[:start] + _mask(field["value"]) + comment[end:]
    return redaction.redact_patterns(comment).replace(redaction.REDACTED, MASK)


# What is shown.


def masked_content(doc: Document) -> bytes:
    """Return a content without its secrets."""
    return doc.encode_text(text_edits.apply_edits(doc.text, mask_edits(doc)))


def mask_edits(doc: Document) -> list[text_edits.Edit]:
    """Return the edits that hide a content's secrets."""
    hidden = find_masks(doc)
    values = [
        (start, end, _render_scalar(text, was=doc.text[start:end]))
        for (start, end), text in hidden.spans.items()
    ]
    comments = [
        (start, start + len(comment), text)
        for start, (comment, text) in hidden.comments.items()
    ]
    return values + comments


def _render_scalar(text: str, *, was: str) -> str:
    """Return a text as it may stand anywhere, on one line."""
    said = serializer.dump_flow(text)
    is_quoted = was[:1] in ("'", '"') and not {'"', "\\"} & {*text}
    if said == text and "${" in text and is_quoted:
        # Other readers than ours take the brace of a placeholder for the map's.
        return f'"{text}"'
    return said


def masked_data(doc: Document) -> dict[str, Any]:
    """Return what a document says, without its secrets."""
    found: dict[str, Any] = _replace_values(doc.data, (), find_masks(doc).values)
    return found


def _replace_values(value: Any, place: Location, by: Mapping[Location, str]) -> Any:
    if isinstance(value, dict):
        return {
            key: _replace_values(it, (*place, key), by) for key, it in value.items()
        }
    if isinstance(value, list):
        return [
            _replace_values(it, (*place, index), by) for index, it in enumerate(value)
        ]
    return by.get(place, value)
