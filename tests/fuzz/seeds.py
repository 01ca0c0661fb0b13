"""What there is to attack: a few users with turns, facts and tasks, and their ids."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx2

from tests.fuzz.modes import Mode

USERS = ("ana", "ben")
AGENTS = ("assistant", "claude", "comparison")
ANSWER_SECONDS = 60.0


def with_token(mode: Mode, url: str) -> Mode:
    """Return the mode with a token that the studio made, where it needs one."""
    if mode.name != "tokens":
        return mode
    with _client(url, mode.studio) as studio:
        wanted = {"label": "fuzz", "principal": USERS[0]}
        made = studio.post("/admin/tokens", json=wanted).raise_for_status()
    return replace(mode, api={"Authorization": f"Bearer {made.json()['secret']}"})


def plant(mode: Mode, url: str) -> dict[str, str]:
    """Fill a server, and return names and ids of what is there, by their routes."""
    with _client(url, mode.api) as api, _client(url, mode.studio) as studio:
        for user in USERS if mode.names_users else USERS[:1]:
            named = {"safety_identifier": user} if mode.names_users else {}
            fact = _use(api, named)
        studio.post("/admin/smoke/first-words/runs", json={}).raise_for_status()
        return _found(studio, fact)


def _client(url: str, headers: Mapping[str, str]) -> httpx2.Client:
    # Reading certificates nobody needs here takes longer than all requests.
    return httpx2.Client(
        base_url=url, headers=dict(headers), timeout=ANSWER_SECONDS, verify=False
    )


def _use(api: httpx2.Client, named: dict[str, str]) -> str:
    """Do what a user does; return the id of a fact."""
    for number, agent in enumerate(AGENTS):
        message = {"role": "user", "content": f"Hello {number}"}
        body = {"model": agent, "messages": [message], **named}
        api.post("/v1/chat/completions", json=body).raise_for_status()
    task = {"agent": "assistant", "prompt": "Write it down.", **named}
    api.post("/v1/tasks", json=task).raise_for_status()
    fact = {"content": "Likes tea."}
    made = api.post("/v1/memories", params=named, json=fact).raise_for_status()
    return str(made.json()["id"])


def _found(studio: httpx2.Client, fact: str) -> dict[str, str]:
    def first(place: str, key: str = "id") -> str:
        listed: list[Any] = studio.get(f"/admin/{place}").json()["data"]
        return str(listed[0][key]) if listed else "none"

    return {
        "agents/{name}": "assistant",
        "experiments/{name}": "comparison",
        "judges/{name}": "quality",
        "mcp/{name}": "notes",
        "accounts/{username}": first("accounts", "username"),
        "providers/{name}": "openai",
        "settings/{key}": "telemetry",
        "smoke/runs/{id}": first("smoke/runs"),
        "smoke/{name}": "first-words",
        "tasks/{id}": first("tasks"),
        "tokens/{id}": first("tokens"),
        "triggers/{name}": "noon",
        "turns/{id}": first("turns"),
        "id": fact,
        "object_id": "1",
        "user": USERS[0],
    }
