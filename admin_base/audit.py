"""Records changes in the studio: in the audit, and in Django's log of the admin."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.http import HttpRequest
from django.utils.module_loading import import_string


def record(
    request: HttpRequest,
    action: str,
    row: Model,
    details: Mapping[str, Any] | None = None,
    *,
    target: str = "",
    flag: int = CHANGE,
) -> None:
    """Record a change of a row; call it in the transaction of the change.

    Both records identify the row by its key, since its text may be a user's.
    """
    key = str(row.pk)
    record_change = import_string(settings.COULISSE_AUDIT)
    record_change(request, action, target or key, details or {})
    LogEntry.objects.create(
        user_id=int(request.user.pk or 0),
        content_type=ContentType.objects.get_for_model(row),
        object_id=key,
        object_repr=target or key,
        action_flag=flag,
        change_message=action,
    )
