"""What addresses about one user have in common."""

from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from access import user_lookup
from access.audit.audit_events import Deed
from access.limits import user_limits
from access.users import identity
from config import live
from core.errors import NotFound
from core.ids import UserId
from judges.ratings import user_score_queries as judged_by_user
from memory.user_data import user_queries
from studio.base.views import Face, Page
from telemetry.presentation import turn_serializers
from telemetry.statistics import user_totals

PLACE = "/admin/users"
AFTER = OpenApiParameter("after", str, description="The last_id of a page.")


class UserUnknown(NotFound):
    """The server has seen no such user. Users are found by their ids, by the very \
names that clients send, and by parts of names that tokens or the configuration have."""

    code = "user_not_found"


class OfUser(Face):
    """An address about one user, named by their id or as clients name them."""

    @cached_property
    def user_id(self) -> UserId:
        """Whom it is about."""
        return identity.derive(identity.checked(self.kwargs["user"]))

    @property
    def user_url(self) -> str:
        """The address of the user's own page."""
        return f"{PLACE}/{self.user_id}"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Lead back to the user."""
        super().initial(request, *args, **kwargs)
        self.breadcrumbs = [("Users", PLACE), (_short(self.user_id), self.user_url)]

    def respond(self, data: Any, *, page: Page | None = None, **more: Any) -> Response:
        """Return data; what a page shows besides is read now: it may not be there."""
        shown = page() if page is not None and self.wants_html else {}
        return super().respond(data, page=lambda: shown, **more)

    def user_context(self) -> dict[str, Any]:
        """Return what every page about a user shows of them."""
        whose = glance(self.user_id)
        name = whose["name"] or _short(self.user_id)
        self.breadcrumbs = [("Users", PLACE), (name, self.user_url)]
        lead = f"of {whose['name'] or self.user_id}"
        return {"whose": whose, "place": self.user_url, "lead": lead, "trail": self.breadcrumbs}

    def audit_event(self, action: str, target: str = "", **details: Any) -> Deed:
        """Return what is done to something of the user's; without one, to the user."""
        by, user = self.actor(), str(self.user_id)
        if not target:
            return Deed(action, by, user, details)
        return Deed(action, by, target, {"user": user, **details})


def _short(user_id: UserId) -> str:
    return str(user_id)[:8]


def glance(user_id: UserId) -> dict[str, Any]:
    """Return a user at a glance; raises `UserUnknown`."""
    there, used = user_queries.of(user_id), user_totals.of(user_id)
    first = min(filter(None, (there.first_seen_at, used.first_at)), default=None)
    last = max(filter(None, (there.last_seen_at, used.last_at)), default=None)
    if first is None or last is None:
        raise UserUnknown
    config, now = live.current(), datetime.now(UTC)
    return {
        "object": "user",
        "id": str(user_id),
        "name": user_lookup.known(config).get(user_id),
        "first_seen_at": turn_serializers.instant(first),
        "last_seen_at": turn_serializers.instant(last),
        "time_zone": there.time_zone or None,
        "threads": there.threads,
        "messages": there.messages,
        "facts": there.facts,
        "turns": used.turns,
        "spent_micro_usd": used.micro_usd,
        "turns_of_unknown_price": used.unpriced_turns,
        "scores": [asdict(mean) for mean in judged_by_user.means(user_id)],
        "limits": [
            {
                "limit": use.label,
                "counted": use.counted,
                "used": use.used,
                "most": use.maximum,
                "share": use.share,
                "resets_at": use.resets_at and turn_serializers.instant(use.resets_at),
            }
            for use in user_limits.of_user(config, user_id, now)
        ],
    }
