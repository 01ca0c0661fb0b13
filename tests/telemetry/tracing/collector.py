"""Collectors that record the spans they receive, over HTTP and gRPC."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as service

from tests.gateway.calls import until

KINDS = {1: "internal", 2: "server", 3: "client", 5: "consumer"}


@dataclass(frozen=True)
class ReceivedSpan:
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: Mapping[str, Any]
    links: list[str]
    is_error: bool
    error: str
    start: int
    end: int


@dataclass
class Collector:
    """What was received; `status` is the answer over HTTP."""

    url: str = ""
    status: int = 200
    spans: list[ReceivedSpan] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    resource: dict[str, Any] = field(default_factory=dict)
    released: threading.Event = field(default_factory=threading.Event)
    """Answers wait for it."""

    def __post_init__(self) -> None:
        self.released.set()

    def receive(self, request: messages.ExportTraceServiceRequest) -> None:
        for resource_spans in request.resource_spans:
            self.resource = _attributes(resource_spans.resource.attributes)
            for scope in resource_spans.scope_spans:
                self.spans += map(_read_span, scope.spans)

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]

    def wait_for(self, name: str, count: int = 1) -> list[ReceivedSpan]:
        until(lambda: len(self.named(name)) >= count)
        return self.named(name)


def _read_span(span: Any) -> ReceivedSpan:
    return ReceivedSpan(
        span.name,
        KINDS[span.kind],
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        _attributes(span.attributes),
        [f"{link.trace_id.hex()}-{link.span_id.hex()}" for link in span.links],
        span.status.code == 2,
        span.status.message,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
    )


def _attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    name = value.WhichOneof("value")
    if name == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, name)


class HttpHandler(BaseHTTPRequestHandler):
    collector: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.collector.released.wait(30)
        self.collector.headers.append({k.lower(): v for k, v in self.headers.items()})
        self.collector.paths.append(self.path)
        if self.collector.status == 200:
            self.collector.receive(messages.ExportTraceServiceRequest.FromString(body))
        self.send_response(self.collector.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def http_collector() -> Iterator[Collector]:
    collector = Collector()
    handler = type("Handler", (HttpHandler,), {"collector": collector})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        collector.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


class GrpcServicer(service.TraceServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802  gRPC's name
        self._collector.headers.append(dict(context.invocation_metadata()))
        self._collector.receive(request)
        return messages.ExportTraceServiceResponse()


@contextmanager
def grpc_collector() -> Iterator[Collector]:
    collector = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    service.add_TraceServiceServicer_to_server(GrpcServicer(collector), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    collector.url = f"http://127.0.0.1:{port}"
    try:
        yield collector
    finally:
        server.stop(0).wait()
