"""Requests that schemathesis makes of an OpenAPI document, right and wrong ones."""

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

from tests.fuzz.routes import SWITCHES
from tests.fuzz.wire import Request

BASE = "http://fuzz.invalid"
EDGES = 8
"""Of each operation in one round: values at the edges of its schema."""
DRAWN = 2
"""Of each operation and mode in one round."""
OURS = {
    *("accept-encoding", "authorization", "connection", "content-length", "cookie"),
    *("host", "user-agent", "x-schemathesis-testcaseid"),
}
"""Headers that are the run's to say."""
KEPT = {"cookies", "data", "files", "headers", "json", "method", "params", "url"}


class Generator:
    """The operations of one document."""

    def __init__(self, document: dict[str, Any], seed: int, salt: str = "") -> None:
        """Take the operations in an order that seed and salt decide."""
        self._seed = seed
        self._schema = schemathesis.openapi.from_dict(document)
        found = [each.ok() for each in self._schema.get_all_operations()]
        self.operations = [each for each in found if SWITCHES not in each.path]
        random.Random(f"{seed} {salt}").shuffle(self.operations)

    def requests(self) -> Iterator[Request]:
        """Yield in rounds, without end: some edges of all, then what is drawn as well.

        Edges are made as they are needed, for all of them take minutes.
        """
        edges = [self._edges(operation) for operation in self.operations]
        for of_one in edges:
            yield from islice(of_one, EDGES)
        for number in count(self._seed):
            for operation, of_one in zip(self.operations, edges, strict=True):
                yield from islice(of_one, EDGES)
                for mode in GenerationMode:
                    yield from self._drawn(operation, mode, number)

    def _edges(self, operation: Any) -> Iterator[Request]:
        """Yield requests with values at the edges of the schema."""
        cases = self._schema.iter_coverage_cases(
            operation,
            generation_modes=list(GenerationMode),
            generation_config=self._schema.config.generation_for(operation=operation),
        )
        for case in cases:
            yield from _request("an edge of the schema", case)

    def _drawn(
        self, operation: Any, mode: GenerationMode, number: int
    ) -> list[Request]:
        found: list[Case] = []

        @seed(number)
        @settings(
            max_examples=DRAWN,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(generation_mode=mode))
        def collect(case: Case) -> None:
            found.append(case)

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                collect()
        except Unsatisfiable:
            pass  # Nothing is wrong for an operation that takes anything.
        return [each for case in found for each in _request(f"{mode} data", case)]


def _request(name: str, case: Case) -> Iterator[Request]:
    """Yield the request of a case, unless HTTP cannot carry it."""
    try:
        sent = case.as_transport_kwargs(base_url=BASE)
        known = {key: value for key, value in sent.items() if key in KEPT}
        prepared = requests.Request(**known).prepare()
    except (ValueError, requests.RequestException):
        return
    address = urlsplit(str(prepared.url))
    headers = [
        (each, value if isinstance(value, str) else value.decode("latin-1"))
        for each, value in prepared.headers.items()
        if each.lower() not in OURS
    ]
    if any("\n" in value or "\r" in value for _, value in headers):
        return
    query = f"?{address.query}" if address.query else ""
    body = prepared.body or b""
    yield Request.of(
        name,
        str(prepared.method),
        f"{address.path}{query}",
        headers=headers,
        body=body if isinstance(body, bytes | str) else b"".join(body),
        operation=case.operation.path,
    )
