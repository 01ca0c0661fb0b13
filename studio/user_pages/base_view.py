"""The base of the views about one user."""

from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from access import user_lookup
from access.audit.audit_events import AuditEvent
from access.limits import user_limits
from access.users import identity
from config import live
from core.errors import NotFound
from core.ids import UserId
from judges.ratings import user_score_queries
from memory.user_data import user_queries
from studio.base.views import PageContext, StudioView
from telemetry.presentation import turn_serializers
from telemetry.statistics import user_totals

USERS_URL = "/admin/users"
AFTER_PARAMETER = OpenApiParameter(
    "after", str, description="The `last_id` of the previous page."
)


class UserUnknown(NotFound):
    """No such user. Names are not stored: use the id, or the exact name that clients \
send."""

    code = "user_not_found"


class UserView(StudioView):
    """A view of one user, named by id or by the name that clients send."""

    @cached_property
    def user_id(self) -> UserId:
        """The user's id."""
        return identity.derive_user_id(identity.check_identifier(self.kwargs["user"]))

    @property
    def user_url(self) -> str:
        """The address of the user's own page."""
        return f"{USERS_URL}/{self.user_id}"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Set the breadcrumbs to the user."""
        super().initial(request, *args, **kwargs)
        self.breadcrumbs = [
            ("Users", USERS_URL),
            (_short_id(self.user_id), self.user_url),
        ]

    def respond(
        self, data: Any, *, page: PageContext | None = None, **options: Any
    ) -> Response:
        """Return data. The context is computed here, where it may raise
        `UserUnknown`."""
        context = page() if page is not None and self.wants_html else {}
        return super().respond(data, page=lambda: context, **options)

    def user_context(self) -> dict[str, Any]:
        """Return the context of all pages about a user."""
        profile = load_user_summary(self.user_id)
        name = profile["name"] or _short_id(self.user_id)
        self.breadcrumbs = [("Users", USERS_URL), (name, self.user_url)]
        lead = f"of {profile['name'] or self.user_id}"
        return {
            "profile": profile,
            "user_url": self.user_url,
            "lead": lead,
            "breadcrumbs": self.breadcrumbs,
        }

    def audit_event(self, action: str, target: str = "", **details: Any) -> AuditEvent:
        """Return the audit event of a change to an object of the user, or to the user
        if `target` is empty."""
        actor, user = self.actor(), str(self.user_id)
        if not target:
            return AuditEvent(action, actor, user, details)
        return AuditEvent(action, actor, target, {"user": user, **details})


def _short_id(user_id: UserId) -> str:
    return str(user_id)[:8]


def load_user_summary(user_id: UserId) -> dict[str, Any]:
    """Return the summary of a user; raises `UserUnknown`."""
    stored, used = user_queries.get_details(user_id), user_totals.user_totals(user_id)
    first = min(filter(None, (stored.first_seen_at, used.first_at)), default=None)
    last = max(filter(None, (stored.last_seen_at, used.last_at)), default=None)
    if first is None or last is None:
        raise UserUnknown
    config, now = live.current(), datetime.now(UTC)
    return {
        "object": "user",
        "id": str(user_id),
        "name": user_lookup.load_names(config).get(user_id),
        "first_seen_at": turn_serializers.format_time(first),
        "last_seen_at": turn_serializers.format_time(last),
        "time_zone": stored.time_zone or None,
        "threads": stored.threads,
        "messages": stored.messages,
        "facts": stored.facts,
        "turns": used.turns,
        "spent_micro_usd": used.micro_usd,
        "unpriced_turns": used.unpriced,
        "scores": [asdict(mean) for mean in user_score_queries.mean_scores(user_id)],
        "limits": [
            {
                "limit": use.label,
                "unit": use.unit,
                "used": use.used,
                "maximum": use.maximum,
                "share": use.share,
                "resets_at": use.resets_at
                and turn_serializers.format_time(use.resets_at),
            }
            for use in user_limits.list_user_limits(config, user_id, now)
        ],
    }
