"""The pages of the studio: those of the menu, and one of each kind below them."""

import re
from typing import NamedTuple

from studio.navigation import GROUPS
from tests.browser.theatre import Theatre


class Place(NamedTuple):
    """A page, by the name of its picture."""

    name: str
    path: str
    """With `{user}` and the like in place of what the database has."""
    title: str = ""
    """How its title begins."""


OVERVIEW = "overview"
MENU = [
    Place(OVERVIEW, "/admin/", "Home"),
    *(
        Place(re.sub(r"\W", "-", entry.title.lower()), entry.path, entry.title)
        for group, entries in GROUPS.items()
        if group
        for entry in entries
    ),
]
BELOW = [
    Place("agent", "/admin/agents/front-desk", "front-desk"),
    Place("agent-edit", "/admin/agents/front-desk/edit", "Edit front-desk"),
    Place("agent-new", "/admin/agents/new", "New agent"),
    Place("conversation", "/admin/users/{user}"),
    Place("experiment", "/admin/experiments/welcome", "welcome"),
    Place("facts", "/admin/users/{user}/facts"),
    Place("judge", "/admin/judges/quality", "quality"),
    Place("section", "/admin/telemetry", "Telemetry"),
    Place("smoke-run", "/admin/smoke/runs/{run}"),
    Place("smoke-test", "/admin/smoke/late-booker", "late-booker"),
    Place("task", "/admin/tasks/{task}"),
    Place("token", "/admin/tokens/{token}"),
    Place("trigger", "/admin/triggers/evening-report", "evening-report"),
    Place("turn", "/admin/turns/{turn}"),
]
PLACES = MENU + BELOW


def found(stage: Theatre) -> dict[str, str]:
    """Return what stands for the names in addresses."""
    users = stage.get("/admin/users")["data"]
    batches = stage.get("/admin/smoke/late-booker/runs")["data"]
    turns = stage.get("/admin/turns?agent=front-desk&limit=100")["data"]
    return {
        "run": next(each["runs"] for each in batches if each["scores"])[0]["id"],
        "task": stage.get("/admin/tasks")["data"][0]["id"],
        "token": stage.get("/admin/tokens")["data"][0]["id"],
        "turn": max(turns, key=lambda turn: turn.get("tool_calls") or 0)["id"],
        "user": max(users, key=lambda user: user["facts"])["id"],
    }
