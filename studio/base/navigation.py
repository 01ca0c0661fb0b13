"""The menu of the studio, in the order in which one works."""

from typing import Any, NamedTuple


class MenuItem(NamedTuple):
    """A page of the menu."""

    title: str
    path: str
    icon: str
    """One of the Material Symbols, which the shell ships."""
    related_paths: tuple[str, ...] = ()
    """Pages that are in no menu, and belong to this one."""

    def matched_length(self, path: str) -> int:
        """Return how much of an address is this entry's; 0 where it is not under it."""
        return max(
            (
                len(each)
                for each in (self.path, *self.related_paths)
                if _is_within(path, each)
            ),
            default=0,
        )


SECTION_PAGES = (
    *("/admin/auth", "/admin/memory/settings", "/admin/providers", "/admin/storage"),
    "/admin/telemetry",
)
"""Pages of the file's sections that have an address of their own."""
GROUPS: dict[str, tuple[MenuItem, ...]] = {
    "": (MenuItem("Home", "/admin/", "home"),),
    "Build": (
        MenuItem("Agents", "/admin/agents", "smart_toy"),
        MenuItem("Playground", "/admin/playground", "forum"),
        MenuItem("Experiments", "/admin/experiments", "science"),
        MenuItem("Triggers", "/admin/triggers", "schedule"),
    ),
    "Evaluate": (
        MenuItem("Judges", "/admin/judges", "gavel"),
        MenuItem("Smoke tests", "/admin/smoke", "theater_comedy"),
    ),
    "Monitor": (
        MenuItem("Live", "/admin/live", "monitoring"),
        MenuItem("Users", "/admin/users", "group", ("/admin/turns",)),
        MenuItem("Memory", "/admin/memory", "neurology"),
        MenuItem("Tasks", "/admin/tasks", "checklist"),
        MenuItem("Spend", "/admin/spend", "payments"),
        MenuItem("Sidecars", "/admin/sidecars", "view_sidebar"),
        MenuItem("Audit", "/admin/audit", "history"),
    ),
    "Configure": (
        MenuItem("Settings", "/admin/settings", "tune", SECTION_PAGES),
        MenuItem("MCP", "/admin/mcp", "extension"),
        MenuItem("Tokens", "/admin/tokens", "key"),
        MenuItem("People", "/admin/people", "badge"),
        MenuItem("coulisse.yaml", "/admin/config/edit", "code", ("/admin/config",)),
        MenuItem("Tables", "/admin/tables/", "table_rows"),
    ),
}


def sidebar(request: Any) -> list[dict[str, Any]]:
    """Return the menu as the shell wants it; `UNFOLD` names this function."""
    here = find_menu_item(request.path)
    return [
        {
            "title": group,
            "items": [
                {
                    "title": entry.title,
                    "icon": entry.icon,
                    "link": entry.path,
                    "active": (group, entry) == here,
                }
                for entry in entries
            ],
        }
        for group, entries in GROUPS.items()
    ]


def find_menu_item(path: str) -> tuple[str, MenuItem] | None:
    """Return the group and the entry of the menu that a page is under, if any."""
    places = [(group, entry) for group, all_ in GROUPS.items() for entry in all_]
    nearest = max(places, key=lambda place: place[1].matched_length(path))
    return nearest if nearest[1].matched_length(path) else None


def _is_within(path: str, place: str) -> bool:
    """Return whether a page is one of those under another."""
    if place == "/admin/":
        return path == place
    return path == place or path.startswith(f"{place.rstrip('/')}/")
