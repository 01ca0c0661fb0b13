"""Receipts of tool calls: a repetition of a call returns the first output."""

from dataclasses import dataclass
from datetime import timedelta

from core.ids import UserId
from core.runtime import shared_clock
from database.errors import TurnDiscarded
from tasks.models import CallReceipt

MAX_SECONDS = 120.0
"""A user waits in silence for a tool as long."""
SAVE_SECONDS = 30.0
"""After its time, a call whose output is still missing was interrupted."""
INTERRUPTED = (
    "Error: this call was interrupted, and may have taken effect: check that before "
    "you call the tool again"
)


@dataclass(slots=True)
class Call:
    """A call that may be repeated, while it runs."""

    user_id: UserId
    key: str
    """The same for its repetitions."""
    has_begun: bool = False
    """Whether its tool may have taken effect."""
    output: str = INTERRUPTED


def begin(call: Call) -> tuple[bool, str | None]:
    """Return whether a call is new, so that the caller runs it, or else its output.

    The output is None while another request runs it.
    """
    now = shared_clock.now()
    receipt, is_new = CallReceipt.objects.get_or_create(
        key=call.key, defaults={"user_id": call.user_id, "begun_at": now}
    )
    longest = timedelta(seconds=MAX_SECONDS + SAVE_SECONDS)
    if receipt.output is None and receipt.begun_at <= now - longest:
        return False, INTERRUPTED
    return is_new, receipt.output


def finish(call: Call, *_: object) -> None:
    """Store the output of a call, in the transaction that stores its turn.

    Raises `TurnDiscarded` if its user was erased meanwhile.
    """
    if not CallReceipt.objects.filter(key=call.key).set_output(call.output):
        raise TurnDiscarded


def release(call: Call) -> None:
    """Let a call that did not begin be repeated."""
    CallReceipt.objects.filter(key=call.key, data=None).delete()
