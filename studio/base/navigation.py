"""The menu of the studio, in the order of an operator's work."""

from typing import Any, NamedTuple


class MenuItem(NamedTuple):
    """A page in the menu."""

    title: str
    path: str
    icon: str
    """The name of a Material Symbol, whose font the shell includes."""
    related_paths: tuple[str, ...] = ()
    """Pages outside the menu that belong to this item."""

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
    "/admin/memory/settings",
    "/admin/providers",
    "/admin/storage",
    "/admin/telemetry",
)
"""Sections of the file that have their own page."""
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
        MenuItem("Accounts", "/admin/accounts", "badge"),
        MenuItem("coulisse.yaml", "/admin/config/edit", "code", ("/admin/config",)),
        MenuItem("Tables", "/admin/tables/", "table_rows"),
    ),
}


def sidebar(request: Any) -> list[dict[str, Any]]:
    """Return the menu in the shell's format; `UNFOLD` names this function."""
    current = find_menu_item(request.path)
    return [
        {
            "title": group,
            "items": [
                {
                    "title": entry.title,
                    "icon": entry.icon,
                    "link": entry.path,
                    "active": (group, entry) == current,
                }
                for entry in entries
            ],
        }
        for group, entries in GROUPS.items()
    ]


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
