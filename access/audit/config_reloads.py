"""Edits of the YAML that a running server took, in the audit."""

import logging
import socket
from collections.abc import Sequence

from django.db import connection, transaction

from access.audit import audit_log
from access.audit.audit_events import Actor, AuditEvent
from access.models import AuditEntry
from config.loading import reader
from config.sections import Config

ACTION = "config.reload"
WRITE_ACTION = "config.write"
"""Of who wrote the file in the studio: that says it all."""

logger = logging.getLogger(__name__)


def record_reload(config: Config, sections: Sequence[str]) -> None:
    """Note which sections changed, never to what; for the watcher's thread.

    Of several processes that take an edit one writes it down; on PostgreSQL two that
    look at the same instant may both. Never raises: the edit is in force whether or not
    the database answers.
    """
    by = Actor("whoever edited the file", f"server on {socket.gethostname()}")
    details = {"sections": sorted(sections), "digest": config.digest}
    deed = AuditEvent(ACTION, by, reader.display_path(config.path), details)
    try:
        with transaction.atomic():
            if _last_digest() != config.digest:
                audit_log.write(deed)
    except Exception as exc:
        logger.error("the edit is not in the audit: %s", exc)
    finally:
        # The thread may be idle for days, and nobody mends its connection.
        connection.close()


def _last_digest() -> str | None:
    """Return which content was taken last."""
    edits = AuditEntry.objects.filter(action__in=(ACTION, WRITE_ACTION))
    last = edits.order_by("-at", "-id").first()
    return None if last is None else last.details.get("digest")
