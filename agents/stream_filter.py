"""What of an agent's rounds the client hears."""

from collections.abc import Collection, Sequence

from core.events import (
    Event,
    ReasoningBlock,
    TextDelta,
    ToolCallDelta,
    TurnFinished,
)


class StreamFilter:
    """Passes on what a model says, round after round, as one reply.

    Text goes through as it comes, unless the last alone counts: whether it is
    the answer is known at the end. Signed thinking belongs to the calls of its round,
    so only that of the last is kept, by the caller.
    """

    def __init__(self, clients: Collection[str], *, says_last_alone: bool) -> None:
        self._clients = clients
        self._says_last_alone = says_last_alone
        self._has_said = False
        """Whether the rounds before this one had text."""
        self._says = False
        """Whether this one has."""
        self._screen = ToolCallFilter(clients)
        self.has_sent = False
        """Whether the client was told anything of this round."""

    def next_round(self) -> None:
        """Begin another call of the model."""
        self._has_said = self._has_said or self._says
        self.restart_round()

    def restart_round(self) -> None:
        """Forget this call, of which nobody heard."""
        self._says = False
        self._screen = ToolCallFilter(self._clients)
        self.has_sent = False

    def passes_unchanged(self, event: Event) -> bool:
        """Whether an event goes to the client as it is, which most do: it is text that
        goes on."""
        return self._says and type(event) is TextDelta

    def filter(self, event: Event) -> Sequence[Event]:
        """Return what the client is told of an event, now."""
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
    """Lets the pieces of the client's calls through, and keeps back all others.

    A call's first pieces may come without its name; they wait for it.
    """

    def __init__(self, clients: Collection[str]) -> None:
        self._clients = clients
        self._shown: dict[int, int] = {}
        """The index the client sees, by the model's."""
        self._waiting: dict[int, list[ToolCallDelta]] = {}
        self._hidden: set[int] = set()

    def filter(self, piece: ToolCallDelta) -> Sequence[ToolCallDelta]:
        """Return the pieces that may go to the client now."""
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
