"""What clients answered to the calls that were handed to them.

A call of a client's tool ends its turn; the result comes with the next one.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from core.ids import UserId
from telemetry.config import TelemetryConfig
from telemetry.models import ToolCall, Turn
from telemetry.storage import stored_text

MAX_TURNS_SEARCHED = 20
"""Of the user's turns; who answers later than that is not put down."""


def store_results(
    user_id: UserId, results: Mapping[str, str], settings: TelemetryConfig
) -> None:
    """Put results, by the ids of their calls, into the user's latest turns.

    In the caller's transaction. The first answer to a call counts; of calls with one id
    the newest is meant.
    """
    if not results or not settings.sqlite.enabled:
        return
    now = datetime.now(UTC)
    latest = Turn.objects.filter(user_id=user_id).order_by("-started_at", "-id")
    ids = list(latest.values_list("pk", flat=True)[:MAX_TURNS_SEARCHED])
    names = {
        stored_text.truncate_name(call_id): result
        for call_id, result in results.items()
    }
    asked = ToolCall.objects.filter(turn__in=ids, kind="client", call_id__in=names)
    newest: dict[str, tuple[int, datetime]] = {}
    for pk, call_id, begun in asked.order_by("started_at", "pk").values_list(
        "pk", "call_id", "started_at"
    ):
        # Some servers count the calls of each reply anew, so ids come again.
        newest[call_id] = pk, begun
    for call_id, (pk, begun) in newest.items():
        # Whoever answers at the same time may have been first.
        ToolCall.objects.filter(pk=pk, result=None).update(
            result=stored_text.truncate_payload(
                names[call_id], settings.sqlite.max_payload_bytes
            ),
            seconds=max((now - begun).total_seconds(), 0.0),
        )
