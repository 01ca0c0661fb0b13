"""Audit entries for edits of the YAML that a running server applies."""

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
"""The action of file changes in the studio, which have their own audit entry."""

logger = logging.getLogger(__name__)


def record_reload(config: Config, sections: Sequence[str]) -> None:
    """Record which sections changed, without values; for the watcher's thread.

    If several processes apply an edit, one records it; on PostgreSQL two that check at
    the same instant may both do so. Never raises: the edit applies whether or not the
    database is available.
    """
    actor = Actor("unknown editor", f"server on {socket.gethostname()}")
    details = {"sections": sorted(sections), "digest": config.digest}
    event = AuditEvent(ACTION, actor, reader.display_path(config.path), details)
    try:
        with transaction.atomic():
            if _last_digest() != config.digest:
                audit_log.write(event)
    except Exception as exc:
        logger.error("could not record the file edit in the audit: %s", exc)
    finally:
        # The thread may be idle for days; nothing else closes its stale connection.
        connection.close()


def _last_digest() -> str | None:
    """Return the digest of the content that was recorded last."""
    entries = AuditEntry.objects.filter(action__in=(ACTION, WRITE_ACTION))
    last = entries.newest_first().first()
    return None if last is None else last.details.get("digest")
