"""What the studio speaks with scripts: JSON and YAML, in and out."""

import dataclasses
from collections.abc import Iterable, Mapping
from io import StringIO
from typing import Any

import orjson
from django.utils.functional import Promise
from pydantic import BaseModel
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser, JSONParser
from rest_framework.renderers import BaseRenderer
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from config.errors import ConfigInvalid
from config.loading import reader, scanner
from config.overrides import entry_texts
from core.validation import storable_values


def plain(value: Any) -> Any:
    """Return a value as JSON has it: maps, lists, texts, numbers."""
    return orjson.loads(_dumped(value))


def _dumped(value: Any, option: int = 0) -> bytes:
    option |= orjson.OPT_NON_STR_KEYS
    return orjson.dumps(value, default=_simpler, option=option)


def _simpler(value: Any) -> Any:
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
    raise TypeError(f"{type(value).__name__} is nothing JSON can say")


MAX_WRITTEN_BYTES = 100_000
"""Of an answer as JSON; larger ones are not written as YAML."""
TOO_DEEP = "The body is nested too deeply"
TOO_MANY = f"The body has more than {scanner.MAX_WRITTEN:,} keys and values"


class Format(BaseRenderer):
    """Tells what a face answers: in `told`, without what DRF's signature brings."""

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes | str:
        """Return the answer's body."""
        return self.serialize(data, renderer_context or {})

    def serialize(self, data: Any, context: Mapping[str, Any]) -> bytes | str:
        """Return data as this format tells them; `context` has the view and so on."""
        raise NotImplementedError


class Json(Format):
    """JSON, of whatever a face answers."""

    media_type = "application/json"
    format = "json"
    charset = None

    def serialize(self, data: Any, context: Mapping[str, Any]) -> bytes:
        """Return the bytes; none for an answer without a body."""
        return b"" if data is None else _dumped(data)


class Yaml(Format):
    """YAML of the same."""

    media_type = "application/yaml"
    format = "yaml"
    charset = "utf-8"

    def serialize(self, data: Any, context: Mapping[str, Any]) -> str:
        """Return the text; what is a text already is YAML as it was written."""
        if isinstance(data, str):
            return data
        return "" if data is None else readable(data)


class Csv(Format):
    """CSV: a face that has it answers with `csv_lines.download`."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def serialize(self, data: Any, context: Mapping[str, Any]) -> bytes:
        """Return what went wrong as JSON: it is no table."""
        return _dumped(data)


class JsonParser(JSONParser):
    """Reads a JSON body; one that is nested without end is refused, too."""

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return what the body says; raises `ParseError` for what is no JSON."""
        try:
            value = super().parse(stream, media_type, parser_context)
        except RecursionError:
            raise ParseError(TOO_DEEP) from None
        _fits(value)
        return value


def _fits(value: Any) -> None:
    """Raise `ParseError` for JSON that neither a file nor a table can hold."""
    level, left = [value], scanner.MAX_WRITTEN
    for _ in range(scanner.MAX_DEPTH + 1):
        left -= sum(len(each) for each in level if isinstance(each, dict | list))
        if left < 0:
            raise ParseError(TOO_MANY)
        for each in level:
            for value in each if isinstance(each, dict) else (each,):
                problem = storable_values.problem(value)
                if problem is not None:
                    raise ParseError(f"The body {problem}")
        level = [below for each in level for below in _below(each)]
        if not level:
            return
    raise ParseError(TOO_DEEP)


def _below(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


class YamlParser(BaseParser):
    """Reads a YAML body by the rules of `coulisse.yaml`."""

    media_type = "application/yaml"

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return what the body says; raises `ParseError` for what is no YAML."""
        return loaded(stream.read())


class XYamlParser(YamlParser):
    """The same, by the name it had before it had one."""

    media_type = "application/x-yaml"


def loaded(content: bytes) -> Any:
    """Return what a YAML text says; raises `ParseError`, with the place."""
    try:
        source = reader.parse(content, "body")
        tree = entry_texts.verbatim(source)
        value = tree.value(source.root, ())
        if tree.problems:
            raise ConfigInvalid(tree.problems)
    except ConfigInvalid as exc:
        raise ParseError(str(exc).partition("\n")[0]) from exc
    return value


def dumped(value: Any) -> str:
    """Return plain data as YAML, long texts as blocks."""
    out = StringIO()
    yaml = YAML(typ="rt")
    yaml.default_flow_style = False
    yaml.width = 100
    yaml.dump(_in_blocks(value), out)
    return out.getvalue().removesuffix("...\n")


def readable(data: Any) -> str:
    """Return an answer as YAML; a large one as JSON, which is YAML, too.

    Writing YAML takes seconds and many megabytes of memory for each megabyte.
    """
    told = _dumped(data)
    if len(told) > MAX_WRITTEN_BYTES:
        return _dumped(data, orjson.OPT_INDENT_2).decode()
    return dumped(orjson.loads(told))


def _in_blocks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_blocks(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_in_blocks(entry) for entry in value]
    if isinstance(value, str) and "\n" in value:
        return LiteralScalarString(value)
    return value
