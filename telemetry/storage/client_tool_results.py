"""Stores clients' results of their own tools.

A call of a client's tool ends its turn; the result arrives with the next one.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from core.ids import UserId
from telemetry.config import TelemetryConfig
from telemetry.models import ToolCall, Turn
from telemetry.storage import stored_text

MAX_TURNS_SEARCHED = 20
"""The user's latest turns; results of older calls are not stored."""


def store_results(
    user_id: UserId, results: Mapping[str, str], settings: TelemetryConfig
) -> None:
    """Store results, by call id, in the user's latest turns.

    Runs in the caller's transaction. Only the first result of a call counts. If several
    calls have the same id, the result belongs to the newest one.
    """
    if not results or not settings.sqlite.enabled:
        return
    now = datetime.now(UTC)
    latest = Turn.objects.filter(user_id=user_id).order_by("-started_at", "-id")
    ids = list(latest.values_list("pk", flat=True)[:MAX_TURNS_SEARCHED])
    by_id = {
        stored_text.truncate_name(call_id): result
        for call_id, result in results.items()
    }
    calls = ToolCall.objects.filter(turn__in=ids, kind="client", call_id__in=by_id)
    newest: dict[str, tuple[int, datetime]] = {}
    for pk, call_id, started_at in calls.order_by("started_at", "pk").values_list(
        "pk", "call_id", "started_at"
    ):
        # Some servers restart the numbering of calls with each reply, so ids repeat.
        newest[call_id] = pk, started_at
    for call_id, (pk, started_at) in newest.items():
        # A concurrent request may have been first.
        ToolCall.objects.filter(pk=pk, result=None).update(
            result=stored_text.truncate_payload(
                by_id[call_id], settings.sqlite.max_payload_bytes
            ),
            seconds=max((now - started_at).total_seconds(), 0.0),
        )
