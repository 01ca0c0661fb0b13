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
from judges.ratings import user_score_queries as judged_by_user
from memory.user_data import user_queries
from studio.base.views import PageContext, StudioView
from telemetry.presentation import turn_serializers
from telemetry.statistics import user_totals

USERS_URL = "/admin/users"
AFTER_PARAMETER = OpenApiParameter("after", str, description="The last_id of a page.")


class UserUnknown(NotFound):
    """The server has seen no such user. Users are found by their ids, by the very \
names that clients send, and by parts of names that tokens or the configuration have."""

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
        self, data: Any, *, page: PageContext | None = None, **more: Any
    ) -> Response:
        """Return data; the page's context is read now, since it may raise
        `UserUnknown`."""
        shown = page() if page is not None and self.wants_html else {}
        return super().respond(data, page=lambda: shown, **more)

    def user_context(self) -> dict[str, Any]:
        """Return the context that every page about a user shows."""
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
        """Return the event of a change of a user's object, or of the user without
        one."""
        by, user = self.actor(), str(self.user_id)
        if not target:
            return AuditEvent(action, by, user, details)
        return AuditEvent(action, by, target, {"user": user, **details})


def _short_id(user_id: UserId) -> str:
    return str(user_id)[:8]


def load_user_summary(user_id: UserId) -> dict[str, Any]:
    """Return the summary of a user; raises `UserUnknown`."""
    there, used = user_queries.get_details(user_id), user_totals.user_totals(user_id)
    first = min(filter(None, (there.first_seen_at, used.first_at)), default=None)
    last = max(filter(None, (there.last_seen_at, used.last_at)), default=None)
    if first is None or last is None:
        raise UserUnknown
    config, now = live.current(), datetime.now(UTC)
    return {
        "object": "user",
        "id": str(user_id),
        "name": user_lookup.load_names(config).get(user_id),
        "first_seen_at": turn_serializers.format_time(first),
        "last_seen_at": turn_serializers.format_time(last),
        "time_zone": there.time_zone or None,
        "threads": there.threads,
        "messages": there.messages,
        "facts": there.facts,
        "turns": used.turns,
        "spent_micro_usd": used.micro_usd,
        "turns_of_unknown_price": used.unknown,
        "scores": [asdict(mean) for mean in judged_by_user.mean_scores(user_id)],
        "limits": [
            {
                "limit": use.label,
                "counted": use.unit,
                "used": use.used,
                "most": use.maximum,
                "share": use.share,
                "resets_at": use.resets_at
                and turn_serializers.format_time(use.resets_at),
            }
            for use in user_limits.list_user_limits(config, user_id, now)
        ],
    }
