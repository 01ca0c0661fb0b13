"""Replace masks by their secrets when a file is saved.

A mask stands for the file's secret at the same keys, in the list entry of the same
name. A mask where the file has no secret is refused; masks are never written to the
file.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from config import errors
from config.editing import blocks, data_comparison, document, round_trip, secret_masks
from config.editing.document import Document
from config.editing.secret_masks import MASK
from config.errors import ConfigInvalid
from config.sections import Location, Position, Problem

NOTHING_STORED_THERE = (
    "this is a mask, but the file has no secret here; write the secret itself, or a "
    "placeholder such as ${NAME}"
)
MASK_AS_KEY = "a mask cannot be a key"
MASK_IN_COMMENT = "this comment contains a mask; write its full text"


def restore_content(content: bytes, old: Document, file: str) -> bytes:
    """Return a content with its masks replaced by the secrets of an older one.

    Raises `ConfigInvalid` where the older one has no secret, and for invalid YAML.
    """
    if MASK not in content.decode(errors="replace"):
        return content
    new = document.parse_document(content, file)
    edits: dict[tuple[int, int], str] = {}
    problems: list[Problem] = []
    # An alias has its mask at the anchor, which comes first.
    places: dict[tuple[int, int], tuple[Location, Location | str]] = {}
    for at, source in _find_sources(new.data, secret_masks.mask_document(old).data):
        places.setdefault(new.span_of(at), (at, source))
    for span, (at, source) in places.items():
        if isinstance(source, str):
            problems.append(_problem(at, source, new.source.position(span[0])))
        else:
            edits[span] = _secret_text(new, at, old, source)
    for span, comment in _restore_comments(new, old):
        if comment is None:
            position = new.source.position(span[0])
            problems.append(Problem((), MASK_IN_COMMENT, errors.MASKED, position))
        else:
            edits[span] = comment
    if problems:
        raise ConfigInvalid(errors.limit_problems(problems))
    text = blocks.apply_edits(new.text, [(*span, it) for span, it in edits.items()])
    return new.encode_text(text)


def restore_data(new: Any, location: Location, old: Document) -> Any:
    """Return data for a location with its masks replaced by a document's secrets.

    Raises `ConfigInvalid` where the document has no secret.
    """
    shown: Any = secret_masks.mask_document(old).data
    try:
        shown = data_comparison.value_at(shown, location)
    except LookupError:
        shown = None
    problems = []
    for at, source in _find_sources(new, shown, location, location):
        if isinstance(source, str):
            problems.append(_problem(at, source))
        else:
            secret = data_comparison.value_at(old.data, source)
            new = data_comparison.replace_at(new, at[len(location) :], secret)
    if problems:
        raise ConfigInvalid(errors.limit_problems(problems))
    return new


def _find_sources(
    new: Any, shown: Any, at: Location = (), source: Location = ()
) -> Iterator[tuple[Location, Location | str]]:
    """Yield where a mask is in new data, and where its secret is, or why it has none.

    `shown` is the old data with its masks.
    """
    if isinstance(new, dict):
        below = shown if isinstance(shown, dict) else {}
        for key, value in new.items():
            if MASK in key:
                yield (*at, key), MASK_AS_KEY
            yield from _find_sources(value, below.get(key), (*at, key), (*source, key))
    elif isinstance(new, list):
        items = shown if isinstance(shown, list) else []
        pairs = data_comparison.match_entries(items, new, is_strict=True)
        for index, match in enumerate(pairs):
            item = None if match is None else items[match]
            below_source = (*source, -1 if match is None else match)
            yield from _find_sources(new[index], item, (*at, index), below_source)
    elif isinstance(new, str) and MASK in new:
        yield at, source if new == shown else NOTHING_STORED_THERE


def _problem(
    location: Location, message: str, position: Position | None = None
) -> Problem:
    name = ".".join(map(str, location))
    return Problem(location, f"'{name}': {message}", errors.MASKED, position)


def _secret_text(new: Document, at: Location, old: Document, source: Location) -> str:
    """Return the text of an older secret for its place in a new document."""
    start, end = old.span_of(source)
    raw = old.text[start:end].replace("\r\n", "\n")
    layout, layout_before = new.layout_of(at), old.layout_of(source)
    rest_of_line = new.text[new.span_of(at)[1] :].partition("\n")[0]
    is_one_line = "\n" not in raw and layout[0] == layout_before[0]
    if is_one_line or (layout == layout_before and not rest_of_line.strip()):
        return raw
    return round_trip.dump_flow(data_comparison.value_at(old.data, source))


def _restore_comments(
    new: Document, old: Document
) -> Iterator[tuple[tuple[int, int], str | None]]:
    """Yield the span of each comment with masks, and its older text.

    They match by their masked text, in order; None if it is not certain which it was.
    """
    shown = secret_masks.mask_document(old)
    originals: dict[str, list[str]] = defaultdict(list)
    both = zip(
        secret_masks.iter_comments(shown), secret_masks.iter_comments(old), strict=True
    )
    for (_, masked), (_, comment) in both:
        originals[masked.rstrip()].append(comment.rstrip())
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for start, comment in secret_masks.iter_comments(new):
        if MASK in comment:
            spans[comment.rstrip()].append((start, start + len(comment.rstrip())))
    for masked, places in spans.items():
        texts: list[str | None] = [*originals[masked]]
        if len({*texts}) == 1:
            texts = texts[:1] * len(places)
        elif len(texts) != len(places):
            texts = [None] * len(places)
        yield from zip(places, texts, strict=True)
