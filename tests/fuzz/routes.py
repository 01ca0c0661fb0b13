"""Requests to every route of the studio, each with one invalid part."""

import json
import random
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any
from urllib.parse import quote

from django.urls import URLPattern, URLResolver, get_resolver

from studio.openapi.document import iterate_operations
from tests.fuzz import hostile_values
from tests.fuzz.raw_requests import Request

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PURGE")
WRITES = ("POST", "POST", "PUT", "PATCH", "DELETE")
QUERY_NAMES = (
    "_changelist_filters",
    "_popup",
    "_to_field",
    "after",
    "all",
    "before",
    "by",
    "category",
    "days",
    "e",
    "format",
    "fragment",
    "from",
    "id__exact",
    "in",
    "kind",
    "like",
    "limit",
    "o",
    "outcome",
    "p",
    "page",
    "pk",
    "q",
    "search",
    "since",
    "state",
    "status",
    "until",
    "user",
    "version",
)
"""Parameters that some address reads, described or not."""
CHARSETS = ("unicode_escape", "zlib", "idna", "utf-7")
ACCEPTED = ("application/json", "text/html")
TABLES = {("access", "token"), ("memory", "message"), ("r", "{content_type_id}")}
"""A table with UUIDs and one with numbers; all tables share one view."""
NOT_HTTP = "live/events"
SWITCHES = "tokens/enable"
"""Changes the authentication, so that the server would refuse all further requests."""


def paths(urlconf: str = "coulisse_site.studio_urls") -> list[str]:
    """Return every route below `/admin`, with its parameters in braces."""
    routes = dict.fromkeys(_routes(get_resolver(urlconf).url_patterns, "/"))
    excluded = (NOT_HTTP, SWITCHES)
    return [path for path in routes if not path.endswith(excluded) and _is_chosen(path)]


def _is_chosen(path: str) -> bool:
    """Return whether a path is not a page of a table that others represent."""
    steps = path.split("/")
    is_table = path.startswith("/admin/tables/") and len(steps) > 5
    return not is_table or tuple(steps[3:5]) in TABLES


def _routes(patterns: list[Any], prefix: str) -> Iterator[str]:
    for pattern in patterns:
        route = prefix + _normalize(str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield route


def _normalize(route: str) -> str:
    """Return a route with `{name}` for `<path:name>` or `(?P<name>...)`."""
    route = re.sub(r"\(\?P<(\w+)>[^()]*(\([^()]*\)[^()]*)*\)", r"{\1}", route)
    route = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route)
    return re.sub(r"[\^$\\]", "", route)


class Generator:
    """Yields requests in an order that depends on a seed."""

    def __init__(
        self, document: dict[str, Any], names: Mapping[str, str], seed: int
    ) -> None:
        self._random = random.Random(seed)
        self._known_names = names
        self._fields = {
            (path, method.upper()): _fields(operation, document)
            for path, method, operation in iterate_operations(document)
            if "requestBody" in operation
        }

    def requests(self) -> Iterator[Request]:
        """Yield requests in rounds: one of each route per round."""
        streams = [self._requests_of(path) for path in paths()]
        self._random.shuffle(streams)
        while streams:
            for stream in list(streams):
                request = next(stream, None)
                if request is None:
                    streams.remove(stream)
                else:
                    yield request

    def _requests_of(self, path: str) -> Iterator[Request]:
        makers = (
            self._methods,
            self._in_path,
            self._in_query,
            self._in_charsets,
            self._in_headers,
            self._in_body,
            self._in_fields,
        )
        requests = list(chain.from_iterable(maker(path) for maker in makers))
        self._random.shuffle(requests)
        yield from requests

    def _methods(self, path: str) -> Iterator[Request]:
        for method in METHODS:
            for accept in ACCEPTED:
                yield self._request(path, "a method", method, Accept=accept)

    def _in_path(self, path: str) -> Iterator[Request]:
        for name in re.findall(r"\{(\w+)\}", path):
            for text in hostile_values.TEXTS:
                target = self._fill(path, **{name: _quoted(text)})
                for method in ("GET", self._random.choice(METHODS)):
                    label = f"{name} in the path"
                    yield self._request(path, label, method, target=target)

    def _in_query(self, path: str) -> Iterator[Request]:
        for name in QUERY_NAMES:
            for text in self._random.sample(hostile_values.TEXTS, 12):
                target = f"{self._fill(path)}?{name}={_quoted(text)}"
                accept = self._random.choice(ACCEPTED)
                label = f"{name} in the query"
                yield self._request(path, label, target=target, Accept=accept)

    def _in_charsets(self, path: str) -> Iterator[Request]:
        for charset in CHARSETS:
            kind = {"Content-Type": f"text/plain; charset={charset}"}
            target = f"{self._fill(path)}?q=%5Cud800&after=+2AA-&in=all"
            yield self._request(path, "a charset", target=target, **kind)

    def _in_headers(self, path: str) -> Iterator[Request]:
        for name, value in hostile_values.HEADERS:
            for method in ("GET", self._random.choice(METHODS)):
                yield self._request(path, f"the header {name}", method, **{name: value})

    def _in_body(self, path: str) -> Iterator[Request]:
        texts = (("application/json", text.encode()) for text in hostile_values.JSON)
        for kind, body in (*hostile_values.BODIES, *texts):
            method = self._random.choice(WRITES)
            yield self._with_body(path, method, kind, body)

    def _in_fields(self, path: str) -> Iterator[Request]:
        for (described, method), fields in self._fields.items():
            if described == path:
                for body in _invalid_in_one_field(fields):
                    yield self._with_body(path, method, "application/json", body)

    def _with_body(self, path: str, method: str, kind: str, body: bytes) -> Request:
        headers = {"Content-Type": kind} if kind else {}
        return self._request(path, "a body", method, body=body, **headers)

    def _request(
        self,
        path: str,
        name: str,
        method: str = "GET",
        *,
        target: str = "",
        body: bytes = b"",
        **headers: str,
    ) -> Request:
        return Request.build(
            name,
            method,
            target or self._fill(path),
            headers=headers.items(),
            body=body,
            operation=path,
        )

    def _fill(self, path: str, **values: str) -> str:
        """Return a path with names of existing objects, or with the given values."""

        def value(match: re.Match[str]) -> str:
            name = match[1]
            step = f"{path[: match.start()].rpartition('/admin/')[2]}{match[0]}"
            known_value = self._known_names.get(
                step, self._known_names.get(name, "unknown")
            )
            return values.get(name, quote(known_value, safe=""))

        return re.sub(r"\{(\w+)\}", value, path)


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def _fields(operation: dict[str, Any], document: dict[str, Any]) -> list[str]:
    """Return the names of the fields of a body."""
    shape = operation["requestBody"]["content"].get("application/json", {})
    return sorted(_names(shape.get("schema", {}), document))


def _names(shape: dict[str, Any], document: dict[str, Any]) -> set[str]:
    if "$ref" in shape:
        name = shape["$ref"].rpartition("/")[2]
        return _names(document["components"]["schemas"][name], document)
    names = set(shape.get("properties", {}))
    for each in (*shape.get("anyOf", ()), *shape.get("allOf", ())):
        names |= _names(each, document)
    return names


def _invalid_in_one_field(fields: list[str]) -> Iterator[bytes]:
    """Yield bodies whose fields are texts, except for one."""
    for invalid in fields:
        others = [f'{json.dumps(name)}: "a"' for name in fields if name != invalid]
        for text in hostile_values.JSON:
            members = [*others, f"{json.dumps(invalid)}: {text}"]
            yield f"{{{', '.join(members)}}}".encode()
