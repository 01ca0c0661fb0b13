"""Every change made in the studio is in the audit, under who made it."""

import uuid

import pytest

from access.models import AuditEntry
from studio import people
from tests.conftest import CONFIG
from tests.studio.test_every_address import writes

pytestmark = pytest.mark.database

AGENT = {"name": "extra", "provider": "openai", "model": "gpt-test"}
JUDGE = {**AGENT, "rubrics": {"tone": "Politeness."}}
VARIANTS = [{"agent": "assistant"}, {"agent": "claude"}]
TRIAL = {"name": "extra", "strategy": "split", "variants": VARIANTS}
PERSONA = {"provider": "openai", "model": "gpt-test", "preamble": "You are new."}
TEST = {"name": "extra", "target": "assistant", "persona": PERSONA}
KINDS = {"agents": AGENT, "experiments": TRIAL, "judges": JUDGE, "smoke": TEST}
SECTION = {"fmt": {"enabled": False}}
REMEMBERED = {"user_state": True}
SERVER = {"url": "http://127.0.0.1:9/mcp", "oauth": False}
NOBODY = "00000000-0000-0000-0000-000000000000"

ASKED = {
    *(f"/admin/{kind}/check" for kind in KINDS),
    *(f"/admin/{kind}/somewhat/check" for kind in KINDS),
    "/admin/config/check",
    "/admin/playground/turns",
}
"""Nothing changes there: turns are recorded as turns."""
ELSEWHERE = {
    *(("POST", f"/admin/{kind}/somewhat/reset") for kind in KINDS if kind != "agents"),
    ("POST", "/admin/judges/somewhat/past"),
    ("POST", "/admin/judges/somewhat/retry"),
    ("DELETE", f"/admin/mcp/somewhat/connections/{NOBODY}"),
    ("POST", "/admin/mcp/somewhat/tools"),
    ("POST", "/admin/sidecars/somewhat/restart"),
    ("POST", "/admin/smoke/runs/somewhat/cancel"),
    ("POST", "/admin/smoke/somewhat/runs"),
    ("POST", "/admin/tasks/somewhat/again"),
    ("POST", "/admin/tasks/somewhat/cancel"),
    ("POST", "/admin/triggers/somewhat/fire"),
    ("PUT", "/admin/storage"),
}
"""The same face, or one that needs more than a file and a database: see its tests."""


def changes(user: str, fact: str, token: str) -> list[tuple[str, str, str, object]]:
    """Return what is done: the method, the route, the address and the body."""
    facts = f"/admin/users/{user}/facts"
    done: list[tuple[str, str, str, object]] = []
    for kind, entry in KINDS.items():
        place, one = f"/admin/{kind}", f"/admin/{kind}/extra"
        route = f"{place}/somewhat"
        done += [
            ("POST", place, place, entry),
            ("PUT", route, one, entry),
            ("DELETE", route, one, None),
        ]
    assistant = "/admin/agents/assistant"
    done += [
        ("PUT", "/admin/agents/somewhat", assistant, {**AGENT, "name": "assistant"}),
        ("POST", "/admin/agents/somewhat/reset", f"{assistant}/reset", None),
    ]
    for section, body in {"telemetry": SECTION, "auth": {}, "memory": {}}.items():
        done.append(("PUT", f"/admin/{section}", f"/admin/{section}", body))
    some, one = "/admin/users/somewhat", "/admin/users/somewhat/facts/somewhat"
    return [
        *done,
        ("PUT", "/admin/memory/settings", "/admin/memory/settings", REMEMBERED),
        ("PUT", "/admin/settings/somewhat", "/admin/settings/vars", {"a": "b"}),
        ("POST", "/admin/mcp", "/admin/mcp", {"name": "more", **SERVER}),
        ("PUT", "/admin/mcp", "/admin/mcp", {"other": SERVER}),
        (
            "PUT",
            "/admin/mcp/somewhat",
            "/admin/mcp/other",
            {**SERVER, "url": "http://a"},
        ),
        ("DELETE", "/admin/mcp/somewhat", "/admin/mcp/other", None),
        ("POST", "/admin/tokens", "/admin/tokens", {"label": "x", "principal": "p"}),
        ("DELETE", "/admin/tokens/somewhat", f"/admin/tokens/{token}", None),
        ("PUT", "/admin/people/somewhat", "/admin/people/vera", {"role": "viewer"}),
        ("POST", f"{some}/facts", facts, {"content": "Likes plums."}),
        ("PATCH", one, f"{facts}/{fact}", {"content": "Likes pears."}),
        ("DELETE", one, f"{facts}/{fact}", None),
        ("DELETE", some, f"/admin/users/{user}", None),
    ]


@pytest.fixture
def file(configure, tmp_path, settings):
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"
    settings.COULISSE_STATE_DIR.mkdir()
    configure(CONFIG)


@pytest.mark.parametrize("part", ["providers", "config"])
def test_the_file_is_written_with_a_word_in_the_audit(script, file, part) -> None:
    shown = script.get(f"/admin/{part}", headers={"Accept": "application/json"}).json()
    before = AuditEntry.objects.count()
    answer = script.put(f"/admin/{part}", json=shown)
    assert answer.status_code < 300, answer.text
    assert AuditEntry.objects.count() <= before + 1


def test_every_change_is_in_the_audit(script, file) -> None:
    user = str(uuid.uuid4())
    made = script.post(f"/admin/users/{user}/facts", json={"content": "Is here."})
    minted = script.post("/admin/tokens", json={"label": "x", "principal": "p"}).json()
    people.staff("vera")
    silent = []
    for method, _, path, body in changes(user, made.json()["id"], minted["id"]):
        before = AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first()
        answer = script.request(method, path, json=body)
        assert answer.status_code < 300, (method, path, answer.text)
        entries = AuditEntry.objects.filter(pk__gt=before or 0)
        if not [entry for entry in entries if entry.actor and entry.origin]:
            silent.append((method, path))
    assert silent == []


def test_no_write_is_forgotten_here() -> None:
    tested = {(method, route) for method, route, *_ in changes("", "", "")}
    file = {
        (method, path)
        for method, path in writes()
        if path.startswith(("/admin/config", "/admin/providers"))
    }
    asked = {place for place in writes() if place[1] in ASKED}
    assert set(writes()) - tested - file - asked - ELSEWHERE == set()
