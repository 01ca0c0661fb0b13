"""Output items as the events that announce, fill and end them."""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from core.messages import Reasoning, ToolCall
from gateway.openai.responses import output_items
from gateway.openai.responses.output_items import ItemObject

IN_PROGRESS = "in_progress"
TEXT, REFUSAL = "output_text", "refusal"
"""The kinds of parts of a message."""


class EventWriter:
    """Writes numbered events as frames; b"" for those up to the number `after`."""

    def __init__(self, *, after: int = -1) -> None:
        self._number = -1
        self._after = after

    def write(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        if self._number <= self._after:
            return b""
        event = {"type": kind, "sequence_number": self._number, **fields}
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps(event))

    def write_delta(self, prefix: bytes, text: str) -> bytes:
        """Return an event about a token; `prefix` is all of it before the text."""
        self._number += 1
        if self._number <= self._after:
            return b""
        return b'%b%b,"sequence_number":%d}\n\n' % (
            prefix,
            orjson.dumps(text),
            self._number,
        )


class ItemEncoder:
    """Encodes one item."""

    def __init__(self, writer: EventWriter, item_id: str, index: int) -> None:
        self._writer = writer
        self.id = item_id
        self.index = index
        """Its position in the output."""
        self.is_done = False

    def to_item(self, status: str) -> ItemObject:
        """Return the item as it is now."""
        raise NotImplementedError

    def start(self) -> bytes:
        """Return the event that announces the item."""
        return self._writer.write(
            "response.output_item.added",
            output_index=self.index,
            item=self.to_item(IN_PROGRESS),
        )

    def finish(self, status: str) -> Iterator[bytes]:
        """Yield the event that ends the item."""
        self.is_done = True
        yield self._writer.write(
            "response.output_item.done",
            output_index=self.index,
            item=self.to_item(status),
        )

    def write(self, kind: str, **fields: Any) -> bytes:
        """Return an event about the item."""
        return self._writer.write(
            kind, item_id=self.id, output_index=self.index, **fields
        )


class ReasoningItemEncoder(ItemEncoder):
    """Encodes reasoning, as a summary with one part."""

    def __init__(self, writer: EventWriter, item_id: str, index: int) -> None:
        super().__init__(writer, item_id, index)
        self._deltas: list[str] = []
        self.blocks: Sequence[Reasoning] = ()
        """What its provider expects back, if the client receives it."""
        self.has_ended = False
        """Whether its text is complete."""

    def to_item(self, status: str) -> ItemObject:
        text = "".join(self._deltas)
        return output_items.reasoning_item(self.id, [text] if text else [], self.blocks)

    def add(self, text: str) -> Iterator[bytes]:
        if not self._deltas:
            yield self.write(
                "response.reasoning_summary_part.added",
                summary_index=0,
                part=output_items.summary_part(""),
            )
        self._deltas.append(text)
        yield self.write(
            "response.reasoning_summary_text.delta", summary_index=0, delta=text
        )

    def end_text(self) -> Iterator[bytes]:
        """Yield the events that end the text, once."""
        if self.has_ended:
            return
        self.has_ended = True
        if text := "".join(self._deltas):
            yield self.write(
                "response.reasoning_summary_text.done", summary_index=0, text=text
            )
            yield self.write(
                "response.reasoning_summary_part.done",
                summary_index=0,
                part=output_items.summary_part(text),
            )

    def finish(self, status: str) -> Iterator[bytes]:
        yield from self.end_text()
        yield from super().finish(status)


class PartEncoder:
    """Encodes a part of a message: the text, or the refusal."""

    def __init__(self, message: "MessageItemEncoder", kind: str, index: int) -> None:
        self.kind = kind
        self._message = message
        self._index = index
        self._deltas: list[str] = []
        name = f"response.{kind}.delta"
        event = {
            "type": name,
            "item_id": message.id,
            "output_index": message.index,
            "content_index": index,
            **self._more_fields,
        }
        # Encoded once: a token costs one JSON string and a join.
        encoded = orjson.dumps(event)[:-1]
        self._prefix = b'event: %b\ndata: %b,"delta":' % (name.encode(), encoded)

    @property
    def _more_fields(self) -> dict[str, Any]:
        return {"logprobs": []} if self.kind == TEXT else {}

    def to_part(self) -> ItemObject:
        text = "".join(self._deltas)
        is_text = self.kind == TEXT
        return (output_items.text_part if is_text else output_items.refusal_part)(text)

    def start(self) -> bytes:
        return self._message.write(
            "response.content_part.added",
            content_index=self._index,
            part=self.to_part(),
        )

    def add(self, writer: EventWriter, text: str) -> bytes:
        self._deltas.append(text)
        return writer.write_delta(self._prefix, text)

    def finish(self) -> Iterator[bytes]:
        name = "text" if self.kind == TEXT else "refusal"
        fields = {name: "".join(self._deltas), **self._more_fields}
        yield self._message.write(
            f"response.{self.kind}.done", content_index=self._index, **fields
        )
        yield self._message.write(
            "response.content_part.done",
            content_index=self._index,
            part=self.to_part(),
        )


class MessageItemEncoder(ItemEncoder):
    """Encodes the message of a reply."""

    def __init__(self, writer: EventWriter, item_id: str, index: int) -> None:
        super().__init__(writer, item_id, index)
        self._parts: dict[str, PartEncoder] = {}

    def to_item(self, status: str) -> ItemObject:
        parts = [part.to_part() for part in self._parts.values()]
        return output_items.message_item(self.id, parts, status)

    def add(self, kind: str, text: str) -> bytes:
        part = self._parts.get(kind)
        if part is not None:
            return part.add(self._writer, text)
        part = self._parts[kind] = PartEncoder(self, kind, len(self._parts))
        return part.start() + part.add(self._writer, text)

    def finish(self, status: str) -> Iterator[bytes]:
        for part in self._parts.values():
            yield from part.finish()
        yield from super().finish(status)


class CallItemEncoder(ItemEncoder):
    """Encodes a call of a client's tool."""

    def __init__(
        self, writer: EventWriter, item_id: str, index: int, call_id: str, name: str
    ) -> None:
        super().__init__(writer, item_id, index)
        self._call_id, self._name = call_id, name
        self._arguments: list[str] = []

    def to_item(self, status: str) -> ItemObject:
        call = ToolCall(self._call_id, self._name, "".join(self._arguments))
        return output_items.call_item(self.id, call, status)

    def add(self, arguments: str) -> bytes:
        self._arguments.append(arguments)
        return self.write("response.function_call_arguments.delta", delta=arguments)

    def finish(self, status: str) -> Iterator[bytes]:
        yield self.write(
            "response.function_call_arguments.done",
            name=self._name,
            arguments="".join(self._arguments),
        )
        yield from super().finish(status)
