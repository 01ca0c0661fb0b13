"""The addresses of the studio's pages: the menu's, and one of each kind below them."""

import re
from typing import NamedTuple

from studio.base.navigation import GROUPS
from tests.browser.harness.demo_server import DemoServer
from tests.processes.conftest import until


class StudioPage(NamedTuple):
    """A page and the name of its screenshot."""

    name: str
    path: str
    """May contain parameters such as `{user}`; see `path_parameters`."""
    title: str = ""
    """The beginning of the page's title."""


PHONE = {"width": 390, "height": 844}
"""A viewport."""
OVERVIEW = "overview"
MENU_PAGES = [
    StudioPage(OVERVIEW, "/admin/", "Home"),
    *(
        StudioPage(re.sub(r"\W", "-", entry.title.lower()), entry.path, entry.title)
        for group, entries in GROUPS.items()
        if group
        for entry in entries
    ),
]
DETAIL_PAGES = [
    StudioPage("agent", "/admin/agents/front-desk", "front-desk"),
    StudioPage("agent-edit", "/admin/agents/front-desk/edit", "Edit front-desk"),
    StudioPage("agent-new", "/admin/agents/new", "New agent"),
    StudioPage("conversation", "/admin/users/{user}"),
    StudioPage("erase", "/admin/users/{user}/erase", "Erase"),
    StudioPage("experiment", "/admin/experiments/welcome", "welcome"),
    StudioPage("fact", "/admin/users/{user}/facts/{fact}"),
    StudioPage("facts", "/admin/users/{user}/facts"),
    StudioPage("feedback", "/admin/feedback", "Feedback"),
    StudioPage("file", "/admin/files/{file}", "programme.txt"),
    StudioPage("judge", "/admin/judges/quality", "quality"),
    StudioPage("judge-past-replies", "/admin/judges/quality/past-replies"),
    StudioPage("judge-scores", "/admin/judges/quality/scores"),
    StudioPage("mcp-sign-ins", "/admin/mcp-sign-ins", "Connected users"),
    StudioPage("memory-settings", "/admin/memory/settings", "Memory"),
    StudioPage("maintenance-jobs", "/admin/maintenance-jobs", "Maintenance jobs"),
    StudioPage("override-history", "/admin/override-history", "History"),
    StudioPage("overrides", "/admin/overrides", "Overrides"),
    StudioPage("periodic-task", "/admin/periodic-tasks/{periodic_task}"),
    StudioPage("periodic-task-new", "/admin/periodic-tasks/add"),
    StudioPage("provider", "/admin/providers/anthropic", "anthropic"),
    StudioPage("review", "/admin/facts?status=pending_review", "Memory"),
    StudioPage("section", "/admin/telemetry", "Telemetry"),
    StudioPage("smoke-batches", "/admin/smoke/late-booker/runs"),
    StudioPage("smoke-run", "/admin/smoke/runs/{run}"),
    StudioPage("smoke-runs", "/admin/smoke/runs"),
    StudioPage("smoke-test", "/admin/smoke/late-booker", "late-booker"),
    StudioPage("table", "/admin/tables/memory/factchange"),
    StudioPage("task", "/admin/tasks/{task}"),
    StudioPage("token", "/admin/tokens/{token}"),
    StudioPage("trigger", "/admin/triggers/evening-report", "evening-report"),
    StudioPage("trigger-run", "/admin/trigger-runs/{trigger_run}"),
    StudioPage("trigger-runs", "/admin/trigger-runs", "Trigger runs"),
    StudioPage("turn", "/admin/turns/{turn}"),
    StudioPage("messages", "/admin/messages", "Messages"),
    StudioPage("sessions", "/admin/sessions", "Sessions"),
    StudioPage("threads", "/admin/threads", "Threads"),
    StudioPage("turns", "/admin/turns", "Turns"),
    StudioPage("user-scores", "/admin/users/{user}/scores"),
    StudioPage("usage-counters", "/admin/usage-counters", "Usage counters"),
    StudioPage("user-threads", "/admin/users/{user}/threads"),
    StudioPage("user-turns", "/admin/users/{user}/turns"),
]
PAGES = MENU_PAGES + DETAIL_PAGES


def path_parameters(server: DemoServer) -> dict[str, str]:
    """Return ids of the demo's rows for the parameters of `StudioPage.path`."""
    until(lambda: server.get("/admin/periodic-tasks")["data"])  # Beat adds them.
    users = server.get("/admin/users")["data"]
    batches = server.get("/admin/smoke/late-booker/runs")["data"]
    turns = server.get("/admin/turns")["data"]
    user = max(users, key=lambda user: user["facts"])["id"]
    return {
        "fact": server.get(f"/admin/users/{user}/facts")["data"][0]["id"],
        "file": server.get("/admin/files")["data"][0]["id"],
        "periodic_task": server.get("/admin/periodic-tasks")["data"][0]["id"],
        "run": next(batch["runs"] for batch in batches if batch["scores"])[0]["id"],
        "task": server.get("/admin/tasks?state=queued")["data"][0]["id"],
        "token": server.get("/admin/tokens")["data"][0]["id"],
        "trigger_run": server.get("/admin/trigger-runs")["data"][0]["id"],
        "turn": max(turns, key=lambda turn: turn.get("tool_calls") or 0)["id"],
        "user": user,
    }
