"""Audit entries for changes by clients."""

import pytest
from django.test.utils import override_settings

from access.audit import audit_log, config_reloads
from access.models import AuditEntry
from access.tokens import api_tokens
from access.users import identity
from config import live
from config.loading import loader
from database.errors import DatabaseDown
from tests.access.actors import ADA
from tests.gateway.memory_client import MemoryClient, ok

pytestmark = pytest.mark.database


def entries(memory_client: MemoryClient, **terms) -> list[AuditEntry]:
    """Return a user's audit entries, oldest first."""
    user_id = str(identity.derive_user_id(memory_client.user))
    found = AuditEntry.objects.filter(**terms).order_by("at", "id")
    return [
        entry for entry in found if user_id in (entry.target, entry.details.get("user"))
    ]


def test_memory_writes_are_audited(memory_client):
    saved = memory_client.save("Plays the cello")
    for _ in range(2):  # The second time nothing is changed.
        memory_client.change(saved, content="Plays the viola", importance=9)
    for _ in range(2):
        memory_client.forget(saved)
    created, changed, deleted = entries(memory_client)
    assert [created.action, changed.action, deleted.action] == [
        "memory.create",
        "memory.change",
        "memory.delete",
    ]
    assert {entry.target for entry in (created, changed, deleted)} == {saved["id"]}
    user_id = str(identity.derive_user_id(memory_client.user))
    assert {entry.actor for entry in (created, changed, deleted)} == {f"user:{user_id}"}
    assert {entry.origin for entry in (created, changed, deleted)} == {"127.0.0.1"}
    assert created.details == {"user": user_id, "outcome": "created"}
    assert changed.details == {"user": user_id, "fields": ["content", "importance"]}
    result = repr([entry.details for entry in (created, changed, deleted)])
    assert "viola" not in result
    assert "cello" not in result


def test_audit_entry_names_request_and_origin(memory_client):
    body = {"content": "Plays the cello"}
    response = memory_client.client.post(
        "/v1/memories",
        params={"safety_identifier": memory_client.user},
        json=body,
        headers={"X-Request-Id": "by-hand-7", "X-Forwarded-For": "203.0.113.9"},
    )
    ok(response, 201)
    [entry] = entries(memory_client)
    assert entry.request_id == "by-hand-7"
    assert entry.origin.endswith(", forwarded for 203.0.113.9")


def test_refused_request_is_not_audited(memory_client):
    memory_client.refused("DELETE", f"/v1/memories/mem_{'0' * 32}", 404)
    assert entries(memory_client) == []


def test_unauditable_change_is_refused(memory_client, monkeypatch):
    saved = memory_client.save("Plays the cello")

    def write(event):
        raise DatabaseDown

    monkeypatch.setattr(audit_log, "write", write)
    assert (
        memory_client.send("DELETE", f"/v1/memories/{saved['id']}").status_code == 503
    )
    assert memory_client.contents() == ["Plays the cello"]


def test_export_and_erasure_are_audited(memory_client):
    memory_client.save("Plays the cello")
    memory_client.get("/v1/users/me/export")
    requested = ok(memory_client.send("DELETE", "/v1/users/me"), 202)
    confirmation = requested["confirmation"]
    deleted = ok(
        memory_client.send("DELETE", "/v1/users/me", confirmation=confirmation)
    )
    _, exported, erased = entries(memory_client)
    assert (exported.action, erased.action) == ("user.export", "user.erase")
    assert erased.target == str(identity.derive_user_id(memory_client.user))
    assert erased.details == {"rows": sum(deleted["deleted"].values())}


def test_token_actor_is_its_label(memory_client, configure):
    configure(
        "providers: {openai: {api_key: x}}\n"
        "agents: [{name: assistant, provider: openai, model: gpt-test}]\n"
        "auth: {proxy: {tokens: {}}}\n"
    )
    row, secret = api_tokens.create_token("laptop", memory_client.user, by=ADA)
    bearer = {"Authorization": f"Bearer {secret}"}
    ok(
        memory_client.client.post(
            "/v1/memories", json={"content": "A"}, headers=bearer
        ),
        201,
    )
    [entry] = entries(memory_client, action="memory.create")
    assert entry.actor == f"token:laptop ({row.id.hex[:8]})"
    assert secret not in repr(AuditEntry.objects.filter(pk=entry.pk).values().get())


def test_basic_auth_actor_is_scheme_and_username(memory_client, configure):
    configure(
        "providers: {openai: {api_key: x}}\n"
        "agents: [{name: assistant, provider: openai, model: gpt-test}]\n"
        "auth: {proxy: {basic: {username: ada, password: open-the-studio}}}\n"
    )
    memory_client.client.auth = ("ada", "open-the-studio")
    memory_client.save("Plays the cello")
    [entry] = entries(memory_client, action="memory.create")
    assert entry.actor == "basic:ada"


# Edits of the YAML


def test_yaml_edit_is_audited_once_without_values(tmp_path, database):
    path = tmp_path / "coulisse.yaml"
    text = "providers: {openai: {api_key: sk-first-secret}}\nagents: []\n"
    text = text.replace("[]", "[{name: a, provider: openai, model: m}]")
    path.write_text(text)
    with override_settings(COULISSE_CONFIG=path):
        live.set_current(loader.load_file(path))
        watchers = [live.ConfigWatcher(config_reloads.record_reload) for _ in range(2)]
        path.write_text(text.replace("first", f"second-{tmp_path.name}"))
        watchers[0].poll()
        # Another process with the old configuration.
        config_reloads.record_reload(live.current(), ["providers"])
    digest = live.current().digest
    found = AuditEntry.objects.filter(
        action=config_reloads.ACTION, details__digest=digest
    )
    [entry] = found
    assert entry.details["sections"] == ["providers"]
    assert entry.target.endswith("coulisse.yaml")
    assert "second" not in repr(entry.details)


def test_yaml_edit_applies_without_audit(tmp_path, database, monkeypatch, caplog):
    monkeypatch.setattr(audit_log, "write", lambda event: 1 / 0)
    path = tmp_path / "coulisse.yaml"
    path.write_text(
        "providers: {openai: {api_key: x}}\n"
        "agents: [{name: a, provider: openai, model: m}]\n"
    )
    config_reloads.record_reload(loader.load_file(path), ["agents"])
    assert "could not record the file edit in the audit" in caplog.text
