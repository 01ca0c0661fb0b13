"""What the request log shows of a turn."""

from core import trace
from core.runtime import request_facts
from telemetry.types import TurnRecord


def note_turn(record: TurnRecord) -> None:
    """Add a turn that ended; requests may have several, whose tokens are summed."""
    known = request_facts.current.get()
    if known is None:
        return
    calls = [call for call in record.calls if isinstance(call, trace.ModelCall)]
    usage = record.usage
    request_facts.note(
        turn_id=str(record.turn_id),
        agent=record.agent,
        model=f"{calls[-1].provider}/{calls[-1].model}" if calls else None,
        input_tokens=known.get("input_tokens", 0) + usage.input_tokens,
        output_tokens=known.get("output_tokens", 0) + usage.output_tokens,
    )
