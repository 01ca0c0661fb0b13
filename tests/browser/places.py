"""The pages of the studio: those of the menu, and one of each kind below them."""

import re
from typing import NamedTuple

from studio.base.navigation import GROUPS
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
    Place("erase", "/admin/users/{user}/erase", "Erase"),
    Place("experiment", "/admin/experiments/welcome", "welcome"),
    Place("fact", "/admin/users/{user}/facts/{fact}"),
    Place("facts", "/admin/users/{user}/facts"),
    Place("judge", "/admin/judges/quality", "quality"),
    Place("judge-past-replies", "/admin/judges/quality/past-replies"),
    Place("judge-scores", "/admin/judges/quality/scores"),
    Place("memory-settings", "/admin/memory/settings", "Memory"),
    Place("provider", "/admin/providers/anthropic", "anthropic"),
    Place("section", "/admin/telemetry", "Telemetry"),
    Place("smoke-batches", "/admin/smoke/late-booker/runs"),
    Place("smoke-run", "/admin/smoke/runs/{run}"),
    Place("smoke-runs", "/admin/smoke/runs"),
    Place("smoke-test", "/admin/smoke/late-booker", "late-booker"),
    Place("table", "/admin/tables/memory/fact/"),
    Place("task", "/admin/tasks/{task}"),
    Place("token", "/admin/tokens/{token}"),
    Place("trigger", "/admin/triggers/evening-report", "evening-report"),
    Place("turn", "/admin/turns/{turn}"),
    Place("turns", "/admin/turns", "Turns"),
    Place("user-scores", "/admin/users/{user}/scores"),
    Place("user-threads", "/admin/users/{user}/threads"),
    Place("user-turns", "/admin/users/{user}/turns"),
]
PLACES = MENU + BELOW


def found(stage: Theatre) -> dict[str, str]:
    """Return what stands for the names in addresses."""
    users = stage.get("/admin/users")["data"]
    batches = stage.get("/admin/smoke/late-booker/runs")["data"]
    turns = stage.get("/admin/turns")["data"]
    user = max(users, key=lambda user: user["facts"])["id"]
    return {
        "fact": stage.get(f"/admin/users/{user}/facts")["data"][0]["id"],
        "run": next(each["runs"] for each in batches if each["scores"])[0]["id"],
        "task": stage.get("/admin/tasks")["data"][0]["id"],
        "token": stage.get("/admin/tokens")["data"][0]["id"],
        "turn": max(turns, key=lambda turn: turn.get("tool_calls") or 0)["id"],
        "user": user,
    }
