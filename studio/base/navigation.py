"""The menu of the studio, in the order of an operator's work, and its permissions."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest
from rest_framework.permissions import SAFE_METHODS

from admin_base.filters import TIME_PARAMETERS

CHANGE_CONFIGURATION = "studio.change_configuration"


class MenuItem(NamedTuple):
    title: str
    name: str
    """The first part of the address below `/admin/`."""
    icon: str
    """The name of a Material Symbol, whose font the shell includes."""
    view: str = ""
    """The permission of `studio` to see it; "" for a table, which has its own."""
    change: str = "change_configuration"
    """The permission of `studio` to change things on pages without a table."""
    related: Sequence[str] = ()
    """Pages outside the menu that belong to this item."""
    has_time_range: bool = False
    """Whether the page takes the range of time from the page before."""

    @property
    def path(self) -> str:
        return f"/admin/{self.name}"

    def matched_length(self, path: str) -> int:
        """Return how many characters of a path this item matches; 0 for none."""
        paths = [self.path, *(f"/admin/{name}" for name in self.related)]
        return max(len(each) if _is_within(path, each) else 0 for each in paths)


CONFIG = "view_configuration"
SECTIONS = ("auth", "memory", "providers", "storage", "telemetry")
"""Sections of the file that have their own page."""
OVERRIDES = ("overrides", "override-history")
GROUPS: dict[str, tuple[MenuItem, ...]] = {
    "": (MenuItem("Home", "", "home"),),
    "Build": (
        MenuItem("Agents", "agents", "smart_toy", CONFIG),
        MenuItem(
            "Playground", "playground", "forum", "view_playground", "use_playground"
        ),
        MenuItem("Experiments", "experiments", "science", CONFIG),
        MenuItem(
            "Triggers",
            "triggers",
            "schedule",
            "view_triggers",
            "run_triggers",
            ["trigger-runs"],
        ),
        MenuItem(
            "Periodic tasks",
            "periodic-tasks",
            "event_repeat",
            related=["maintenance-jobs"],
        ),
    ),
    "Evaluate": (
        MenuItem("Judges", "judges", "gavel", CONFIG),
        MenuItem("Scores", "scores", "grade", related=["feedback"]),
        MenuItem(
            "Smoke tests",
            "smoke",
            "theater_comedy",
            CONFIG,
            related=["smoke-conversations"],
        ),
    ),
    "Monitor": (
        MenuItem("Turns", "turns", "account_tree"),
        MenuItem("Live", "live", "monitoring", "view_live"),
        MenuItem(
            "Users", "users", "group", related=["threads", "messages", "sessions"]
        ),
        MenuItem("Memory", "facts", "neurology"),
        MenuItem("Files", "files", "attach_file"),
        MenuItem("Tasks", "tasks", "checklist"),
        MenuItem("Spend", "spend", "payments", "view_spend", has_time_range=True),
        MenuItem(
            "Sidecars", "sidecars", "view_sidebar", "view_sidecars", "restart_sidecars"
        ),
        MenuItem("Incidents", "incidents", "health_and_safety"),
        MenuItem("Audit", "audit", "history"),
    ),
    "Configure": (
        MenuItem(
            "Settings", "settings", "tune", CONFIG, related=[*SECTIONS, *OVERRIDES]
        ),
        MenuItem("MCP", "mcp", "extension", CONFIG, related=["mcp-sign-ins"]),
        MenuItem("Tokens", "tokens", "key", related=["usage-counters"]),
        MenuItem("Accounts", "accounts", "badge", related=["groups"]),
        MenuItem("coulisse.yaml", "config/edit", "code", CONFIG, related=["config"]),
        MenuItem("Tables", "tables", "table_rows", "view_tables"),
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
    return not entry.view or request.user.has_perm(f"studio.{entry.view}")


def _link(entry: MenuItem, times: dict[str, str]) -> str:
    """Return the address of an entry, with the range of time if it takes one."""
    table = _site().admin_at(entry.path)
    if not times or not (entry.has_time_range or (table and table.has_time_range)):
        return entry.path
    return f"{entry.path}?{urlencode(times)}"


def required_permission(path: str, method: str | None) -> str | None:
    """Return the permission for a page without a table; None admits every user."""
    place = find_menu_item(path)
    if place is None:
        return None if method in SAFE_METHODS else CHANGE_CONFIGURATION
    name = place[1].view if method in SAFE_METHODS else place[1].change
    return f"studio.{name}" if name else None


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
