"""The wire interface: one provider API's formats, without any I/O."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from core.events import Event, TurnFinished
from providers.model_request import ModelRequest
from providers.resilience.error_mapping import ProviderSource


class StreamReader(Protocol):
    """Reads one streamed reply."""

    done: bool
    """Whether the stream's terminator has come."""

    def feed(self, name: str, data: bytes) -> Iterable[Event]:
        """Return the events of one server-sent event; raise the error it reports."""
        ...

    def end(self) -> TurnFinished:
        """Return the last event; raise BrokenReply for an incomplete stream."""
        ...


class Wire(Protocol):
    """One provider API."""

    path: str
    """The path of calls under the base URL."""

    def headers(self, api_key: str | None) -> Mapping[str, str]:
        """Return the headers of this API, including the key."""
        ...

    def body(self, call: ModelRequest) -> dict[str, Any]:
        """Return the JSON body of a call; raise Invalid for unsupported content."""
        ...

    def read(self, payload: Any, source: ProviderSource) -> Iterable[Event]:
        """Return the events of a whole reply, `TurnFinished` last."""
        ...

    def reader(self, source: ProviderSource) -> StreamReader:
        """Return a reader for one streamed reply."""
        ...
