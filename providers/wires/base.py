"""The wire interface: one provider API's formats, without any I/O."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from core.events import Event, TurnFinished
from providers.model_request import ModelRequest
from providers.resilience.error_mapping import ProviderSource


class ReplyReader(ABC):
    """Reads one reply: as a stream, piece by piece, or whole."""

    done: bool
    """Whether the stream's terminator has come."""

    @abstractmethod
    def feed(self, name: str, data: bytes) -> Iterable[Event]:
        """Return the events of one server-sent event; raise the error it reports."""

    @abstractmethod
    def read_reply(self, payload: Any) -> Sequence[Event]:
        """Return the events of a whole reply except the last."""

    @abstractmethod
    def end(self) -> TurnFinished:
        """Return the last event; raise BrokenReply for an incomplete reply."""


class Wire(ABC):
    """One provider API."""

    path: str
    """The path of calls under the base URL."""
    models_path: str
    """The path of the list of models."""

    @abstractmethod
    def headers(self, api_key: str | None) -> Mapping[str, str]:
        """Return the headers of this API, including the key."""

    @abstractmethod
    def body(self, call: ModelRequest) -> dict[str, Any]:
        """Return the JSON body of a call; raise Invalid for unsupported content."""

    @abstractmethod
    def reader(self, source: ProviderSource) -> ReplyReader:
        """Return a reader for one reply."""

    def read(self, payload: Any, source: ProviderSource) -> Iterable[Event]:
        """Return the events of a whole reply, `TurnFinished` last."""
        reader = self.reader(source)
        return [*reader.read_reply(payload), reader.end()]
