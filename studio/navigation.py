"""The menu of the studio, in the order in which one works."""

from typing import Any, NamedTuple


class Entry(NamedTuple):
    """A page of the menu."""

    title: str
    path: str
    icon: str
    """One of the Material Symbols, which the shell ships."""


GROUPS: dict[str, tuple[Entry, ...]] = {
    "": (Entry("Home", "/admin/", "home"),),
    "Build": (
        Entry("Agents", "/admin/agents", "smart_toy"),
        Entry("Playground", "/admin/playground", "forum"),
        Entry("Experiments", "/admin/experiments", "science"),
        Entry("Triggers", "/admin/triggers", "schedule"),
    ),
    "Evaluate": (
        Entry("Judges", "/admin/judges", "gavel"),
        Entry("Smoke tests", "/admin/smoke", "theater_comedy"),
    ),
    "Monitor": (
        Entry("Live", "/admin/live", "monitoring"),
        Entry("Users", "/admin/users", "group"),
        Entry("Memory", "/admin/memory", "neurology"),
        Entry("Tasks", "/admin/tasks", "checklist"),
        Entry("Spend", "/admin/spend", "payments"),
        Entry("Sidecars", "/admin/sidecars", "view_sidebar"),
        Entry("Audit", "/admin/audit", "history"),
    ),
    "Configure": (
        Entry("Settings", "/admin/settings", "tune"),
        Entry("MCP", "/admin/mcp", "extension"),
        Entry("Tokens", "/admin/tokens", "key"),
        Entry("People", "/admin/people", "badge"),
        Entry("coulisse.yaml", "/admin/config/edit", "code"),
        Entry("Tables", "/admin/tables/", "table_rows"),
    ),
}


def sidebar(request: Any) -> list[dict[str, Any]]:
    """Return the menu as the shell wants it; `UNFOLD` names this function."""
    return [
        {
            "title": group,
            "separator": bool(group),
            "items": [_item(entry, request.path) for entry in entries],
        }
        for group, entries in GROUPS.items()
    ]


def _item(entry: Entry, path: str) -> dict[str, Any]:
    return {
        "title": entry.title,
        "icon": entry.icon,
        "link": entry.path,
        "active": is_within(path, entry.path),
    }


def is_within(path: str, place: str) -> bool:
    """Return whether a page is one of those under an entry of the menu."""
    if place == "/admin/":
        return path == place
    return path == place or path.startswith(f"{place.rstrip('/')}/")
