"""The menu of the studio, in the order of an operator's work, and its permissions."""

from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest
from rest_framework.permissions import SAFE_METHODS

from admin_base.filters import TIME_PARAMETERS

VIEW_CONFIGURATION = "studio.view_configuration"
CHANGE_CONFIGURATION = "studio.change_configuration"


class MenuItem(NamedTuple):
    title: str
    path: str
    icon: str
    """The name of a Material Symbol, whose font the shell includes."""
    view: str = ""
    """The permission to see it; a table's own permissions if this is "" """
    change: str = CHANGE_CONFIGURATION
    """The permission to change things on pages without a table."""
    related_paths: tuple[str, ...] = ()
    """Pages outside the menu that belong to this item."""
    has_time_range: bool = False
    """Whether the page takes the range of time from the page before."""

    def matched_length(self, path: str) -> int:
        """Return how many characters of a path this item matches; 0 for none."""
        return max(
            (
                len(each)
                for each in (self.path, *self.related_paths)
                if _is_within(path, each)
            ),
            default=0,
        )


SECTION_PAGES = (
    "/admin/auth",
    "/admin/memory",
    "/admin/override-history",
    "/admin/overrides",
    "/admin/providers",
    "/admin/storage",
    "/admin/telemetry",
)
"""Sections of the file that have their own page, and overrides."""
GROUPS: dict[str, tuple[MenuItem, ...]] = {
    "": (MenuItem("Home", "/admin/", "home"),),
    "Build": (
        MenuItem("Agents", "/admin/agents", "smart_toy", VIEW_CONFIGURATION),
        MenuItem(
            "Playground",
            "/admin/playground",
            "forum",
            "studio.view_playground",
            "studio.use_playground",
        ),
        MenuItem("Experiments", "/admin/experiments", "science", VIEW_CONFIGURATION),
        MenuItem(
            "Triggers",
            "/admin/triggers",
            "schedule",
            "studio.view_triggers",
            "studio.run_triggers",
            related_paths=("/admin/trigger-runs",),
        ),
        MenuItem(
            "Periodic tasks",
            "/admin/periodic-tasks",
            "event_repeat",
            related_paths=("/admin/maintenance-jobs",),
        ),
    ),
    "Evaluate": (
        MenuItem("Judges", "/admin/judges", "gavel", VIEW_CONFIGURATION),
        MenuItem(
            "Scores", "/admin/scores", "grade", related_paths=("/admin/feedback",)
        ),
        MenuItem(
            "Smoke tests",
            "/admin/smoke",
            "theater_comedy",
            VIEW_CONFIGURATION,
            related_paths=("/admin/smoke-conversations",),
        ),
    ),
    "Monitor": (
        MenuItem("Turns", "/admin/turns", "account_tree"),
        MenuItem("Live", "/admin/live", "monitoring", "studio.view_live"),
        MenuItem(
            "Users",
            "/admin/users",
            "group",
            "memory.view_enduser",
            "memory.change_enduser",
            ("/admin/threads", "/admin/messages"),
        ),
        MenuItem("Memory", "/admin/facts", "neurology"),
        MenuItem("Files", "/admin/files", "attach_file"),
        MenuItem("Tasks", "/admin/tasks", "checklist"),
        MenuItem(
            "Spend",
            "/admin/spend",
            "payments",
            "studio.view_spend",
            has_time_range=True,
        ),
        MenuItem(
            "Sidecars",
            "/admin/sidecars",
            "view_sidebar",
            "studio.view_sidecars",
            "studio.restart_sidecars",
        ),
        MenuItem("Audit", "/admin/audit", "history"),
    ),
    "Configure": (
        MenuItem(
            "Settings",
            "/admin/settings",
            "tune",
            VIEW_CONFIGURATION,
            related_paths=SECTION_PAGES,
        ),
        MenuItem(
            "MCP",
            "/admin/mcp",
            "extension",
            VIEW_CONFIGURATION,
            related_paths=("/admin/mcp-sign-ins",),
        ),
        MenuItem(
            "Tokens", "/admin/tokens", "key", related_paths=("/admin/usage-counters",)
        ),
        MenuItem(
            "Accounts", "/admin/accounts", "badge", related_paths=("/admin/groups",)
        ),
        MenuItem(
            "coulisse.yaml",
            "/admin/config/edit",
            "code",
            VIEW_CONFIGURATION,
            related_paths=("/admin/config",),
        ),
        MenuItem("Tables", "/admin/tables", "table_rows", "studio.view_tables"),
    ),
}


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the menu in the shell's format; `UNFOLD` names this function."""
    current = find_menu_item(request.path)
    times = {each: request.GET[each] for each in TIME_PARAMETERS if each in request.GET}
    groups = [
        {
            "title": group,
            "items": [
                {
                    "title": entry.title,
                    "icon": entry.icon,
                    "link": _link(entry, times),
                    "active": (group, entry) == current,
                }
                for entry in entries
                if _may_view(entry, request)
            ],
        }
        for group, entries in GROUPS.items()
    ]
    return [group for group in groups if group["items"]]


def _site() -> Any:
    """Return the site of the admin, which Django's types do not know as ours."""
    return admin.site


def _may_view(entry: MenuItem, request: HttpRequest) -> bool:
    table = _site().admin_at(entry.path)
    if table is not None:
        return bool(table.may(request, "view"))
    return not entry.view or request.user.has_perm(entry.view)


def _link(entry: MenuItem, times: dict[str, str]) -> str:
    """Return the address of an entry, with the range of time if it takes one."""
    table = _site().admin_at(entry.path)
    if not times or not (entry.has_time_range or (table and table.has_time_range)):
        return entry.path
    return f"{entry.path}?{urlencode(times)}"


def required_permission(path: str, method: str | None) -> str | None:
    """Return the permission for a page without a table; None admits every user."""
    place = find_menu_item(path)
    is_read_only = method in SAFE_METHODS
    if place is None:
        return None if is_read_only else CHANGE_CONFIGURATION
    return (place[1].view or None) if is_read_only else place[1].change


def find_menu_item(path: str) -> tuple[str, MenuItem] | None:
    """Return the menu group and item of a page, if any."""
    items = [(group, item) for group, entries in GROUPS.items() for item in entries]
    best = max(items, key=lambda each: each[1].matched_length(path))
    return best if best[1].matched_length(path) else None


def _is_within(path: str, parent: str) -> bool:
    """Return whether a page is another one or below it."""
    if parent == "/admin/":
        return path == parent
    return path == parent or path.startswith(f"{parent.rstrip('/')}/")
