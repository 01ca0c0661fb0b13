"""Selection of the agent's events that the client receives."""

from collections.abc import Collection, Sequence
from time import monotonic

from core.events import (
    HEARTBEAT_SECONDS,
    Event,
    Heartbeat,
    ReasoningBlock,
    TextDelta,
    ToolCallDelta,
    TurnFinished,
)
from core.reply import Reply


class StreamFilter:
    """Forwards the text of several rounds as one reply.

    Text passes as it arrives, unless only the final text counts, which is known at the
    end. Signed reasoning belongs to the calls of its round, so the caller keeps only
    that of the last round.
    """

    def __init__(
        self,
        client_names: Collection[str],
        *,
        final_text_only: bool,
        holds_calls: bool = False,
    ) -> None:
        self._client_names = client_names
        self._final_text_only = final_text_only
        self._had_text = False
        """Whether earlier rounds had text."""
        self._has_text = False
        """Whether this round has text."""
        self._call_filter = ToolCallFilter(client_names)
        self._holds_calls = holds_calls
        """Whether calls pass at the end of the round, so that they can be asked again
        if it breaks off."""
        self._held_calls = Reply()
        self._held_since = 0.0
        self.has_sent = False
        """Whether the client received anything of this round."""

    def next_round(self) -> None:
        """Start another call of the model."""
        self._had_text = self._had_text or self._has_text
        self.restart_round()

    def restart_round(self) -> None:
        """Discard this call, of which the client received no text."""
        self._has_text = False
        self.has_sent = False
        self.drop_calls()

    def drop_calls(self) -> None:
        """Discard the tool calls of this round."""
        self._call_filter = ToolCallFilter(self._client_names)
        self._held_calls = Reply()

    def passes_unchanged(self, event: Event) -> bool:
        """Whether an event passes unchanged: a fast path for continued text."""
        return self._has_text and type(event) is TextDelta

    def filter(self, event: Event) -> Sequence[Event]:
        """Return the events to send to the client now."""
        events = self._filter_event(event)
        self.has_sent = self.has_sent or bool(events)
        return events

    def _filter_event(self, event: Event) -> Sequence[Event]:
        match event:
            case TextDelta():
                return self._filter_text(event)
            case ToolCallDelta():
                deltas = self._call_filter.filter(event)
                return self._hold(deltas) if self._holds_calls else deltas
            case TurnFinished():
                return [
                    ToolCallDelta(index, call.id, call.name, call.arguments)
                    for index, call in enumerate(self._held_calls.tool_calls)
                ]
            case ReasoningBlock():
                return ()
            case _:
                return (event,)

    def _hold(self, deltas: Sequence[ToolCallDelta]) -> Sequence[Event]:
        """Hold calls back; return a heartbeat if that takes long."""
        if not self._held_calls.has_output:
            self._held_since = monotonic()
        for delta in deltas:
            self._held_calls.add(delta)
        if monotonic() - self._held_since < HEARTBEAT_SECONDS:
            return ()
        self._held_since = monotonic()
        return (Heartbeat(),)

    def _filter_text(self, event: TextDelta) -> Sequence[Event]:
        if self._final_text_only:
            return ()
        is_new = self._had_text and not self._has_text
        self._has_text = True
        return (TextDelta("\n\n"), event) if is_new else (event,)


class ToolCallFilter:
    """Passes the deltas of the client's tool calls and drops all others.

    The first deltas of a call may have no name; they are buffered until it arrives.
    """

    def __init__(self, client_names: Collection[str]) -> None:
        self._client_names = client_names
        self._client_indexes: dict[int, int] = {}
        """The index that the client receives, by the model's index."""
        self._unnamed: dict[int, list[ToolCallDelta]] = {}
        self._dropped: set[int] = set()

    def filter(self, delta: ToolCallDelta) -> Sequence[ToolCallDelta]:
        """Return the deltas to send to the client now."""
        if delta.index in self._dropped:
            return ()
        if delta.index in self._client_indexes:
            return [self._renumber(delta)]
        deltas = self._unnamed.setdefault(delta.index, [])
        deltas.append(delta)
        if not delta.name:
            return ()
        del self._unnamed[delta.index]
        if delta.name not in self._client_names:
            self._dropped.add(delta.index)
            return ()
        self._client_indexes[delta.index] = len(self._client_indexes)
        return [self._renumber(each) for each in deltas]

    def _renumber(self, delta: ToolCallDelta) -> ToolCallDelta:
        return ToolCallDelta(
            self._client_indexes[delta.index], delta.id, delta.name, delta.arguments
        )
