"""The menu of the studio, in the order in which one works."""

from typing import Any, NamedTuple


class Entry(NamedTuple):
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
            (len(each) for each in (self.path, *self.related_paths) if _is_within(path, each)),
            default=0,
        )


SECTIONS = (
    *("/admin/auth", "/admin/memory/settings", "/admin/providers", "/admin/storage"),
    "/admin/telemetry",
)
"""Pages of the file's sections that have an address of their own."""
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
        Entry("Users", "/admin/users", "group", ("/admin/turns",)),
        Entry("Memory", "/admin/memory", "neurology"),
        Entry("Tasks", "/admin/tasks", "checklist"),
        Entry("Spend", "/admin/spend", "payments"),
        Entry("Sidecars", "/admin/sidecars", "view_sidebar"),
        Entry("Audit", "/admin/audit", "history"),
    ),
    "Configure": (
        Entry("Settings", "/admin/settings", "tune", SECTIONS),
        Entry("MCP", "/admin/mcp", "extension"),
        Entry("Tokens", "/admin/tokens", "key"),
        Entry("People", "/admin/people", "badge"),
        Entry("coulisse.yaml", "/admin/config/edit", "code", ("/admin/config",)),
        Entry("Tables", "/admin/tables/", "table_rows"),
    ),
}


def sidebar(request: Any) -> list[dict[str, Any]]:
    """Return the menu as the shell wants it; `UNFOLD` names this function."""
    here = place_of(request.path)
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


def place_of(path: str) -> tuple[str, Entry] | None:
    """Return the group and the entry of the menu that a page is under, if any."""
    places = [(group, entry) for group, all_ in GROUPS.items() for entry in all_]
    nearest = max(places, key=lambda place: place[1].matched_length(path))
    return nearest if nearest[1].matched_length(path) else None


def _is_within(path: str, place: str) -> bool:
    """Return whether a page is one of those under another."""
    if place == "/admin/":
        return path == place
    return path == place or path.startswith(f"{place.rstrip('/')}/")
