"""The JSON and YAML formats of the studio, for requests and responses."""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from django.utils.functional import Promise
from pydantic import BaseModel
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser, JSONParser
from rest_framework.renderers import BaseRenderer

from config.editing import round_trip
from config.errors import ConfigInvalid
from config.loading import reader, scanner
from config.loading.constructor import verbatim_tree
from config.loading.placeholders import RESERVED_CHARACTERS
from core.validation import storable_values


def to_plain_data(value: Any) -> Any:
    """Return a value as JSON types: maps, lists, texts, numbers."""
    return orjson.loads(_dump_json(value))


def _dump_json(value: Any, option: int = 0) -> bytes:
    option |= orjson.OPT_NON_STR_KEYS
    return orjson.dumps(value, default=_to_jsonable, option=option)


def _to_jsonable(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Promise):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


WIDTH = 100
"""Characters after which YAML text continues on the next line."""
MAX_YAML_BYTES = 100_000
"""Size of a response as JSON; larger ones are not written as YAML."""
NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON strings may have and YAML refuses or reads as line breaks."""
RESERVED = re.compile(f"[{RESERVED_CHARACTERS}]")
TOO_DEEP = "The body is nested too deeply"
TOO_MANY = f"The body has more than {scanner.MAX_SCANNED:,} keys and values"


class JsonRenderer(BaseRenderer):
    media_type = "application/json"
    format = "json"
    charset = None

    def render(self, data: Any, *_: Any, **options: Any) -> bytes:
        """Return the bytes; empty for a response without a body."""
        return b"" if data is None else _dump_json(data)


class YamlRenderer(BaseRenderer):
    media_type = "application/yaml"
    format = "yaml"
    charset = "utf-8"

    def render(self, data: Any, *_: Any, **options: Any) -> str:
        """Return the text; a text is returned unchanged, as it already is YAML."""
        if isinstance(data, str):
            return data
        return "" if data is None else dump_readable_yaml(data)


class CsvRenderer(BaseRenderer):
    """Declares CSV; views that support it return `csv_export.csv_response`."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, *_: Any, **options: Any) -> bytes:
        """Return an error as JSON, since an error is not a table."""
        return _dump_json(data)


class StudioJsonParser(JSONParser):
    """Parses a JSON body; refuses endless nesting."""

    def parse(self, stream: Any, *args: Any, **options: Any) -> Any:
        """Return the body's data; raises `ParseError` for invalid JSON."""
        try:
            value = super().parse(stream, *args, **options)
        except RecursionError:
            raise ParseError(TOO_DEEP) from None
        _check_limits(value)
        return value


def _check_limits(value: Any) -> None:
    """Raise `ParseError` for JSON that neither a file nor a table can store."""
    level, remaining = [value], scanner.MAX_SCANNED
    for _ in range(scanner.MAX_DEPTH + 1):
        remaining -= sum(len(each) for each in level if isinstance(each, dict | list))
        if remaining < 0:
            raise ParseError(TOO_MANY)
        for each in level:
            for value in each if isinstance(each, dict) else (each,):
                problem = storable_values.describe_problem(value)
                if problem is not None:
                    raise ParseError(f"The body {problem}")
        level = [child for each in level for child in _children(each)]
        if not level:
            return
    raise ParseError(TOO_DEEP)


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


class YamlParser(BaseParser):
    """Parses a YAML body by the rules of `coulisse.yaml`."""

    media_type = "application/yaml"

    def parse(self, stream: Any, *_: Any, **options: Any) -> Any:
        """Return the body's data; raises `ParseError` for invalid YAML."""
        return load_yaml(stream.read())


class LegacyYamlParser(YamlParser):
    """Parses YAML under the media type used before `application/yaml` existed."""

    media_type = "application/x-yaml"


def load_yaml(content: bytes) -> Any:
    """Return the data of a YAML text; raises `ParseError` with the position."""
    try:
        source = reader.parse_source(content, "body")
        tree = verbatim_tree(source)
        value = tree.value(source.root, ())
        if tree.problems:
            raise ConfigInvalid(tree.problems)
    except ConfigInvalid as exc:
        raise ParseError(str(exc).partition("\n")[0]) from exc
    return value


def dump_yaml(value: Any) -> str:
    """Return plain data as YAML, long texts as blocks."""
    return f"{round_trip.dump_block(value, width=WIDTH)}\n"


def dump_readable_yaml(data: Any) -> str:
    """Return a response as YAML; a large one as JSON, which is also YAML.

    Writing YAML takes seconds and many megabytes of memory for each megabyte, and
    uses the characters that hide placeholders for itself.
    """
    json_bytes = _dump_json(data)
    if len(json_bytes) > MAX_YAML_BYTES or RESERVED.search(json_bytes.decode()):
        text = _dump_json(data, orjson.OPT_INDENT_2).decode()
        return NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return dump_yaml(orjson.loads(json_bytes))
