"""Selection of the agent's events that the client receives."""

from collections.abc import Collection, Sequence

from core.events import (
    Event,
    ReasoningBlock,
    TextDelta,
    ToolCallDelta,
    TurnFinished,
)


class StreamFilter:
    """Forwards what a model says in several rounds as one reply.

    Text passes as it arrives, unless only the final text counts, which is known at the
    end. Signed reasoning belongs to the calls of its round, so the caller keeps only
    that of the last round.
    """

    def __init__(self, clients: Collection[str], *, says_last_alone: bool) -> None:
        self._clients = clients
        self._says_last_alone = says_last_alone
        self._has_said = False
        """Whether earlier rounds had text."""
        self._says = False
        """Whether this round has text."""
        self._screen = ToolCallFilter(clients)
        self.has_sent = False
        """Whether the client received anything of this round."""

    def next_round(self) -> None:
        """Start another call of the model."""
        self._has_said = self._has_said or self._says
        self.restart_round()

    def restart_round(self) -> None:
        """Discard this call, of which the client received nothing."""
        self._says = False
        self._screen = ToolCallFilter(self._clients)
        self.has_sent = False

    def passes_unchanged(self, event: Event) -> bool:
        """Whether an event passes unchanged: a fast path for continued text."""
        return self._says and type(event) is TextDelta

    def filter(self, event: Event) -> Sequence[Event]:
        """Return the events to send to the client now."""
        told = self._filter_event(event)
        self.has_sent = self.has_sent or bool(told)
        return told

    def _filter_event(self, event: Event) -> Sequence[Event]:
        match event:
            case TextDelta():
                return self._filter_text(event)
            case ToolCallDelta():
                return self._screen.filter(event)
            case TurnFinished() | ReasoningBlock():
                return ()
            case _:
                return (event,)

    def _filter_text(self, event: TextDelta) -> Sequence[Event]:
        if self._says_last_alone:
            return ()
        is_new = self._has_said and not self._says
        self._says = True
        return (TextDelta("\n\n"), event) if is_new else (event,)


class ToolCallFilter:
    """Passes the deltas of the client's tool calls and drops all others.

    The first deltas of a call may have no name; they are buffered until it arrives.
    """

    def __init__(self, clients: Collection[str]) -> None:
        self._clients = clients
        self._shown: dict[int, int] = {}
        """The index that the client sees, by the model's index."""
        self._waiting: dict[int, list[ToolCallDelta]] = {}
        self._hidden: set[int] = set()

    def filter(self, piece: ToolCallDelta) -> Sequence[ToolCallDelta]:
        """Return the deltas to send to the client now."""
        if piece.index in self._hidden:
            return ()
        if piece.index in self._shown:
            return [self._renumber(piece)]
        pieces = self._waiting.setdefault(piece.index, [])
        pieces.append(piece)
        if not piece.name:
            return ()
        del self._waiting[piece.index]
        if piece.name not in self._clients:
            self._hidden.add(piece.index)
            return ()
        self._shown[piece.index] = len(self._shown)
        return [self._renumber(each) for each in pieces]

    def _renumber(self, piece: ToolCallDelta) -> ToolCallDelta:
        return ToolCallDelta(
            self._shown[piece.index], piece.id, piece.name, piece.arguments
        )
