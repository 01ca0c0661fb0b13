"""Sample data of an attacked server: users, turns, facts, tasks, and their ids."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx2

from tests.fuzz.modes import Mode

USERS = ("ana", "ben")
AGENTS = ("assistant", "claude", "comparison")
TIMEOUT_SECONDS = 60.0


def with_token(mode: Mode, url: str) -> Mode:
    """Return the mode with a token from the studio, if it needs one."""
    if mode.name != "tokens":
        return mode
    with _client(url, mode.studio) as studio:
        body = {"label": "fuzz", "principal": USERS[0]}
        response = studio.post("/admin/tokens", json=body).raise_for_status()
    return replace(mode, api={"Authorization": f"Bearer {response.json()['secret']}"})


def fill_server(mode: Mode, url: str) -> dict[str, str]:
    """Fill a server; return names and ids of existing objects, by their routes."""
    with _client(url, mode.api) as api, _client(url, mode.studio) as studio:
        for user in USERS if mode.names_users else USERS[:1]:
            user_fields = {"safety_identifier": user} if mode.names_users else {}
            fact = _create_data(api, user_fields)
        studio.post("/admin/smoke/first-words/runs", json={}).raise_for_status()
        return _existing_names(studio, fact)


def _client(url: str, headers: Mapping[str, str]) -> httpx2.Client:
    # Without certificates, because reading them takes longer than all requests.
    return httpx2.Client(
        base_url=url, headers=dict(headers), timeout=TIMEOUT_SECONDS, verify=False
    )


def _create_data(api: httpx2.Client, user_fields: dict[str, str]) -> str:
    """Create turns, a task and a fact of a user; return the id of the fact."""
    for number, agent in enumerate(AGENTS):
        message = {"role": "user", "content": f"Hello {number}"}
        body = {"model": agent, "messages": [message], **user_fields}
        api.post("/v1/chat/completions", json=body).raise_for_status()
    task = {"agent": "assistant", "prompt": "Write it down.", **user_fields}
    api.post("/v1/tasks", json=task).raise_for_status()
    fact = {"content": "Likes tea."}
    response = api.post(
        "/v1/memories", params=user_fields, json=fact
    ).raise_for_status()
    return str(response.json()["id"])


def _existing_names(studio: httpx2.Client, fact: str) -> dict[str, str]:
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
