"""The base of the studio's pages; `admin_base.views` describes its use."""

from access.audit.audit_events import Actor
from access.authentication import accounts
from admin_base.views import PageView
from studio.base import navigation


class StudioView(PageView):
    """A page of the studio, with the permissions of its menu entry."""

    def required_permission(self, method: str | None) -> str | None:
        """Return the permission of the view, or else that of its menu entry."""
        own = super().required_permission(method)
        return own or navigation.required_permission(self.request.path, method)

    def actor(self) -> Actor:
        return accounts.request_actor(self.request._request)
