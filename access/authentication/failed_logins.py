"""Bursts of failed sign-ins, in the log and in the audit."""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import connection

from access.audit import audit_log
from access.audit.audit_events import Actor, AuditEvent
from access.models import AuditEntry
from core.text.sanitization import escape_and_truncate

ACTION = "login.fail"
ACTOR = "unauthenticated"
MAX_ENTRIES_READ = 500
"""The maximum number of audit entries that are added up."""

logger = logging.getLogger(__name__)

_writer = ThreadPoolExecutor(1, "failed-logins")
"""The event loop does not wait for the database."""


@dataclass(frozen=True, slots=True)
class FailedLoginBurst:
    """A burst of failures that delays further sign-ins."""

    scope: str
    """`studio`, `/v1` or `mcp_consumer_secret`."""
    network: str
    """The client's address; the last one of several."""
    name: str | None
    """The username of the last failure; None if sign-ins have none."""
    failures: int
    is_distributed: bool = False
    """Whether it is one name from many addresses, rather than one address."""

    def __str__(self) -> str:
        """Return the start of a sentence: failures, scope, source and name."""
        count = f"{self.failures:,} failed sign-in{'' if self.failures == 1 else 's'}"
        source = "several addresses" if self.is_distributed else self.network
        name = (
            "" if self.name is None else f" for name '{escape_and_truncate(self.name)}'"
        )
        return f"{count} from {source or 'a unix socket'}{name}"


def report(burst: FailedLoginBurst) -> None:
    """Log a burst, and store it in the audit from a thread."""
    logger.warning("%s (%s): further attempts are delayed", burst, burst.scope)
    details = {
        "failures": burst.failures,
        "name": None if burst.name is None else escape_and_truncate(burst.name),
        "several_addresses": burst.is_distributed,
    }
    actor = Actor(ACTOR, burst.network)
    _writer.submit(_write_event, AuditEvent(ACTION, actor, burst.scope, details))


def _write_event(event: AuditEvent) -> None:
    try:
        audit_log.write(event)
    except Exception as exc:
        logger.error("could not record the failed sign-ins in the audit: %s", exc)
    finally:
        # The thread may be idle for days, and the database may restart meanwhile.
        connection.close()


def bursts_since(at: datetime) -> Sequence[FailedLoginBurst]:
    """Return the bursts since a time, largest first; one per address and name.

    All web processes write to the audit, so this adds up their counts.
    """
    entries = AuditEntry.objects.filter(action=ACTION, at__gte=at).order_by("-at")
    counts: dict[FailedLoginBurst, int] = {}
    for entry in entries[:MAX_ENTRIES_READ]:
        details = entry.details
        is_distributed = bool(details.get("several_addresses"))
        network = "" if is_distributed else entry.origin
        key = FailedLoginBurst(
            entry.target, network, details.get("name"), 0, is_distributed
        )
        counts[key] = counts.get(key, 0) + int(details.get("failures", 0))
    bursts = [replace(key, failures=count) for key, count in counts.items()]
    return sorted(bursts, key=lambda burst: -burst.failures)
