"""Valid and invalid requests that schemathesis generates from an OpenAPI document."""

import random
import warnings
from collections.abc import Iterator
from itertools import count, islice
from typing import Any
from urllib.parse import urlsplit

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode

from tests.fuzz.raw_requests import Request
from tests.fuzz.routes import SWITCHES

BASE = "http://fuzz.invalid"
EDGE_CASES = 8
"""Edge cases of each operation in one round."""
RANDOM_CASES = 2
"""Random cases of each operation and mode in one round."""
OWN_HEADERS = {
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "host",
    "user-agent",
    "x-schemathesis-testcaseid",
}
"""Headers that the run sets itself."""
REQUEST_FIELDS = {
    "cookies",
    "data",
    "files",
    "headers",
    "json",
    "method",
    "params",
    "url",
}


class Generator:
    """The operations of one document."""

    def __init__(self, document: dict[str, Any], seed: int, salt: str = "") -> None:
        """Shuffle the operations by seed and salt."""
        self._seed = seed
        self._schema = schemathesis.openapi.from_dict(document)
        operations = [each.ok() for each in self._schema.get_all_operations()]
        self.operations = [each for each in operations if SWITCHES not in each.path]
        random.Random(f"{seed} {salt}").shuffle(self.operations)

    def requests(self) -> Iterator[Request]:
        """Yield endless rounds of some edge cases of each, then random requests, too.

        Edge cases are generated on demand, because all of them take minutes.
        """
        streams = [self._edge_cases(operation) for operation in self.operations]
        for stream in streams:
            yield from islice(stream, EDGE_CASES)
        for number in count(self._seed):
            for operation, stream in zip(self.operations, streams, strict=True):
                yield from islice(stream, EDGE_CASES)
                for mode in GenerationMode:
                    yield from self._random_cases(operation, mode, number)

    def _edge_cases(self, operation: Any) -> Iterator[Request]:
        """Yield requests with values at the edges of the schema."""
        cases = self._schema.iter_coverage_cases(
            operation,
            generation_modes=list(GenerationMode),
            generation_config=self._schema.config.generation_for(operation=operation),
        )
        for case in cases:
            yield from _request("an edge of the schema", case)

    def _random_cases(
        self, operation: Any, mode: GenerationMode, number: int
    ) -> list[Request]:
        collected: list[Case] = []

        @seed(number)
        @settings(
            max_examples=RANDOM_CASES,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(generation_mode=mode))
        def collect(case: Case) -> None:
            collected.append(case)

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                collect()
        except Unsatisfiable:
            pass  # No data is invalid for an operation that accepts anything.
        return [each for case in collected for each in _request(f"{mode} data", case)]


def _request(name: str, case: Case) -> Iterator[Request]:
    """Yield the request of a case, unless HTTP cannot carry it."""
    try:
        fields = case.as_transport_kwargs(base_url=BASE)
        fields = {key: value for key, value in fields.items() if key in REQUEST_FIELDS}
        prepared = requests.Request(**fields).prepare()
    except (ValueError, requests.RequestException):
        return
    address = urlsplit(str(prepared.url))
    headers = [
        (each, value if isinstance(value, str) else value.decode("latin-1"))
        for each, value in prepared.headers.items()
        if each.lower() not in OWN_HEADERS
    ]
    if any("\n" in value or "\r" in value for _, value in headers):
        return
    query = f"?{address.query}" if address.query else ""
    body = prepared.body or b""
    yield Request.build(
        name,
        str(prepared.method),
        f"{address.path}{query}",
        headers=headers,
        body=body if isinstance(body, bytes | str) else b"".join(body),
        operation=case.operation.path,
    )
