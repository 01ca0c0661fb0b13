"""Edits of sections that the studio stores in the database, for all processes."""

import re

import pytest
from django.db import transaction

from access.authentication.config import AUTH
from access.limits.config import LIMITS
from access.models import AuditEntry
from agents.config import AGENTS
from config import live
from config.loading import loader
from config.loading.overlays import Overlay
from config.models import Override, OverrideVersion
from mcp_bridge.config import MCP
from memory.config import MEMORY
from providers.config import PROVIDERS
from telemetry.config import TELEMETRY
from tests.studio.configuration.config_file.file_requests import (
    AS_YAML,
    WANTS_YAML,
    error_of,
)
from tests.studio.configuration.entries.conftest import delete_overrides

pytestmark = pytest.mark.database

LIMIT = "# Of each user.\n- {per: principal, requests_per_minute: 7}"
OTHER = "kind: openai\napi_key: ${TEST_OTHER_KEY}\nbase_url: http://127.0.0.1:9/v1"


@pytest.fixture(autouse=True)
def _stored_in_database(server, yaml, settings, monkeypatch):
    settings.COULISSE_STUDIO_EDITS = "database"
    monkeypatch.setenv("TEST_OTHER_KEY", "sk-other-V7dK2mXw9Lr4TzQ8")
    delete_overrides()
    yield
    delete_overrides()


def put(script, path, text, **options):
    return script.put(path, content=text, headers=AS_YAML, **options)


def stored():
    return {(row.section, row.name): row.body for row in Override.objects.all()}


def reset(script, section, name):
    row = Override.objects.get(section=section, name=name)
    return script.post(f"/admin/overrides/{row.pk}/remove")


def test_sections_of_every_kind_are_stored_and_in_force(script, yaml, text):
    assert put(script, "/admin/settings/limits", LIMIT).status_code == 200
    assert put(script, "/admin/memory", "salience_limit: 9").status_code == 200
    assert put(script, "/admin/auth", "proxy: {tokens: {}}").status_code == 200
    assert put(script, "/admin/settings/vars", "tone: kind").status_code == 200
    assert put(script, "/admin/mcp/web", "url: http://127.0.0.1:8/\noauth: false")
    created = script.post("/admin/providers", json={"name": "o", "kind": "local"})
    assert created.status_code == 201
    assert script.put("/admin/telemetry", json={"fmt": {"enabled": False}}).is_success
    config = live.current()
    assert config.get(LIMITS)[0].requests_per_minute == 7
    assert config.get(MEMORY).salience_limit == 9
    assert config.get(AUTH).requires_tokens
    assert config.get(MCP)["web"].url == "http://127.0.0.1:8/"
    assert config.get(MCP)["files"].command == "uvx"
    assert config.get(PROVIDERS)["o"].kind == "local"
    assert not config.get(TELEMETRY).fmt.enabled
    # The file stays as it is; what is stored is the text of each part.
    assert yaml.read_text() == text
    assert config.digest == loader.content_digest(text.encode())
    assert stored() == {
        ("limits", "limits"): LIMIT,
        ("memory", "memory"): "salience_limit: 9",
        ("auth", "auth"): "proxy: {tokens: {}}",
        ("vars", "tone"): "kind",
        ("mcp", "web"): "url: http://127.0.0.1:8/\noauth: false",
        ("providers", "o"): "kind: local",
        ("telemetry", "telemetry"): "# on stderr\nfmt: {enabled: false}",
    }
    assert script.get("/admin/settings/limits", headers=WANTS_YAML).text == LIMIT
    entry = AuditEntry.objects.filter(action="config.write").newest_first().first()
    assert entry.details["section"] == "telemetry"


def test_export_is_the_file_with_the_overrides(script, text):
    put(script, "/admin/telemetry", "fmt: {enabled: false} # quiet")
    put(script, "/admin/settings/limits", LIMIT)
    script.delete("/admin/mcp/web")
    exported = script.get("/admin/config?format=yaml").text
    assert "telemetry: # all of it\n  fmt: {enabled: false} # quiet\n" in exported
    assert "\nlimits:\n  # Of each user.\n  - {per: principal" in exported
    assert "http://127.0.0.1:9/mcp" not in exported
    assert "sk-openai" not in exported
    before = text.partition("telemetry:")[0].splitlines()
    after = exported.partition("telemetry:")[0].splitlines()
    assert [line for line in before if "api_key" not in line] == [
        line for line in after if "api_key" not in line
    ]


def test_removed_entry_is_disabled_and_an_added_one_deleted(script):
    script.post("/admin/providers", json={"name": "o", "kind": "local"})
    assert script.delete("/admin/providers/o").json()["deleted"]
    assert stored() == {}
    assert "o" not in live.current().get(PROVIDERS)
    script.delete("/admin/mcp/web")
    assert "web" not in live.current().get(MCP)
    assert Override.objects.get(section="mcp", name="web").is_tombstone
    assert script.get("/admin/mcp/web").status_code == 404
    assert reset(script, "mcp", "web").json()["deleted"]
    assert "web" in live.current().get(MCP)
    in_use = script.delete("/admin/providers/openai")
    assert error_of(in_use)["problems"][0]["code"] == "coulisse.E019"


def test_reset_returns_to_the_file_and_keeps_the_history(script):
    put(script, "/admin/telemetry", "fmt: {enabled: false}")
    put(script, "/admin/settings/limits", LIMIT)
    reset(script, "telemetry", "telemetry")
    reset(script, "limits", "limits")
    assert live.current().get(TELEMETRY).fmt.enabled
    assert live.current().get(LIMITS) == ()
    actions = OverrideVersion.objects.values_list("section", "action").order_by("id")
    assert list(actions) == [
        ("telemetry", "saved"),
        ("limits", "saved"),
        ("telemetry", "reset"),
        ("limits", "removed"),
    ]
    edits = AuditEntry.objects.filter(action__startswith="config.").newest_first()
    audit = edits.values_list("action", "target")[:2]
    assert list(audit) == [("config.delete", "limits"), ("config.reset", "telemetry")]


def test_edit_of_another_process_is_not_overwritten(script):
    response = script.get("/admin/telemetry")
    version = response.headers["ETag"].strip('"')
    put(script, "/admin/telemetry", "fmt: {enabled: false}")
    conflict = put(script, f"/admin/telemetry?version={version}", "fmt: {}")
    assert conflict.status_code == 409
    assert error_of(conflict)["code"] == "edit_conflict"
    assert not live.current().get(TELEMETRY).fmt.enabled


def test_unchanged_text_is_not_stored(script, text):
    for path in ("/admin/telemetry", "/admin/mcp/web", "/admin/config"):
        same = script.get(path, headers=WANTS_YAML).text
        assert put(script, path, same).status_code == 200
    assert OverrideVersion.objects.count() == 0


def test_whole_file_stores_the_sections_that_change(script, yaml, text):
    shown = script.get("/admin/config?format=yaml").text
    edited = shown.replace("{enabled: true}", "{enabled: false}")
    edited = edited.replace(":9/mcp", ":8/mcp")
    response = put(script, "/admin/config", edited)
    assert response.status_code == 200
    assert set(stored()) == {("telemetry", "telemetry"), ("mcp", "web")}
    assert yaml.read_text() == text
    refused = put(script, "/admin/config", shown.replace("model: gpt", "model: x-gpt"))
    assert refused.status_code == 403
    assert "edit, add or disable each agent" in refused.text


@pytest.mark.parametrize("key", ["server", "sidecars", "studio"])
def test_section_of_one_machine_is_not_stored(script, key):
    value = {"server": {"worker_threads": 2}, "sidecars": [], "studio": {}}[key]
    refused = script.put(f"/admin/settings/{key}", json=value)
    assert refused.status_code == 403
    assert "in the file of each machine" in error_of(refused)["message"]
    assert stored() == {}


def test_commands_stay_those_of_the_file(script):
    text = script.get("/admin/mcp/files", headers=WANTS_YAML).text
    refused = put(script, "/admin/mcp/files", text.replace("uvx", "sh"))
    assert refused.status_code == 403
    assert error_of(refused)["code"] == "commands_not_allowed"


def test_stored_command_is_rejected_by_a_file_that_forbids_it(script):
    with transaction.atomic():
        Override.objects.store(
            Overlay("mcp", "files", "command: sh\nargs: [-c, id]"), by="someone"
        )
    assert live.current().get(MCP)["files"].command == "uvx"
    (rejected,) = live.current().rejected_overrides
    assert "can be changed only in the file" in rejected.reason


def test_secrets_of_the_file_are_not_stored(script):
    shown = script.get("/admin/providers/openai", headers=WANTS_YAML).text
    assert put(
        script, "/admin/providers/openai", shown.replace("retries: 0", "retries: 3")
    ).is_success
    provider = live.current().get(PROVIDERS)["openai"]
    assert provider.retries == 3
    assert provider.api_key.get_secret_value().startswith("sk-openai-")
    (body,) = stored().values()
    assert "sk-openai" not in body
    assert "••••••••" in body
    again = script.get("/admin/providers/openai", headers=WANTS_YAML).text
    assert again == shown.replace("retries: 0", "retries: 3")


def test_placeholders_are_stored_as_written(script):
    text = "name: other\n" + OTHER
    assert script.post("/admin/providers", content=text, headers=AS_YAML).is_success
    assert stored() == {("providers", "other"): OTHER}
    provider = live.current().get(PROVIDERS)["other"]
    assert provider.api_key.get_secret_value() == "sk-other-V7dK2mXw9Lr4TzQ8"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/admin/providers/openai", "api_key: sk-new-Q8wXv5LmT2dHs7YgCb9Rk3Zp"),
        ("/admin/auth", "admin: {basic: {username: ada, password: correct-horse-7}}"),
    ],
)
def test_new_secret_is_refused_with_a_remedy(script, path, text):
    refused = put(script, path, text)
    assert refused.status_code == 422
    (problem,) = error_of(refused)["problems"]
    assert "secrets are not stored in the database" in problem["message"]
    assert "${NAME}" in problem["message"]
    assert stored() == {}
    assert OverrideVersion.objects.count() == 0


SPARE = "providers:\n  spare: {kind: local}\n"
LEARNING = "# Cheap.\nuser_state: {learn_from: {provider: spare, model: m}}"


def test_override_that_no_longer_fits_the_file_is_rejected(script, yaml, text, caplog):
    watcher = live.ConfigWatcher()
    yaml.write_text(text.replace("providers:\n", SPARE))
    watcher.poll()
    assert put(script, "/admin/memory", LEARNING).is_success
    put(script, "/admin/telemetry", "fmt: {enabled: false}")
    yaml.write_text(text)
    watcher.poll()
    config = live.current()
    assert config.get(MEMORY).user_state is None
    assert not config.get(TELEMETRY).fmt.enabled
    (rejected,) = config.rejected_overrides
    assert live.file_digest() not in (config.digest, "")
    # The position is that of the text in the studio.
    assert rejected.reason.startswith("'memory' in the studio:2:")
    assert "provider 'spare', which is not under providers" in rejected.reason
    assert "'memory' in the studio is rejected" in caplog.text
    home = script.get("/admin/", headers={"Accept": "application/json"}).json()
    (alert,) = [each for each in home["alerts"] if "'memory'" in each["message"]]
    assert alert["address"] == "/admin/memory/settings"
    # Others can still be edited, and it applies again when it fits.
    assert put(script, "/admin/settings/vars", "tone: kind").is_success
    yaml.write_text(text.replace("providers:\n", SPARE))
    watcher.poll()
    assert live.current().get(MEMORY).user_state.learn_from.provider == "spare"
    assert live.file_digest() == live.current().digest


def test_edit_of_the_file_that_opposes_an_override_is_refused(script, yaml, text):
    shown = script.get("/admin/providers/openai", headers=WANTS_YAML).text
    put(script, "/admin/providers/openai", f"# One.\n# Two.\n{shown}")
    script.delete("/admin/mcp/web")
    watcher = live.ConfigWatcher()
    seed = "    seed: 7\n"
    edited = text.replace(seed, f"{seed}    mcp_tools: [{{server: web}}]\n")
    yaml.write_text(edited)
    for _ in range(2):
        watcher.poll()
    problem, conflict = live.file_error().problems
    assert "MCP server 'web', which is not under mcp:" in problem.message
    # The line is that of the file, not of the text with the overrides.
    assert problem.position.line == edited.splitlines().index("  - name: tuned") + 7
    assert "'mcp.web' is disabled there" in conflict.message
    assert "`coulisse overrides reset mcp web`" in conflict.message
    reset(script, "mcp", "web")
    watcher.poll()
    assert live.file_error() is None


def test_page_shows_the_override_with_its_difference(browser, script):
    page = browser.get("/admin/telemetry")
    assert "Stored in the database, for all processes" in page.text
    assert "Reset to YAML" not in page.text
    put(script, "/admin/telemetry", "fmt: {enabled: false}")
    page = browser.get("/admin/telemetry").text
    assert "<code>telemetry</code> overrides the file" in page
    assert "-fmt: {enabled: true}" in page
    assert "+fmt: {enabled: false}" in page
    assert 'href="/admin/override-history?section=telemetry&amp;name=telemetry"' in page
    row = Override.objects.get()
    action = f"/admin/overrides/{row.pk}/remove"
    assert f'action="{action}"' in page
    done = browser.submit(
        action, {"_next": "/admin/telemetry"}, form_page="/admin/telemetry"
    )
    assert done.url.path == "/admin/telemetry"
    assert "overrides the file" not in done.text
    assert live.current().get(TELEMETRY).fmt.enabled


def test_forms_and_lists_show_overrides(browser, script):
    version = re.search(
        r'name="version" value="(\w+)"', browser.get("/admin/mcp/web").text
    )[1]
    fields = {"_method": "PUT", "version": version, "yaml": "url: http://127.0.0.1:8/"}
    saved = browser.submit("/admin/mcp/web", fields)
    assert "&#x27;web&#x27; saved" in saved.text
    stale = browser.submit("/admin/mcp/web", {**fields, "yaml": "url: http://x.test/"})
    assert stale.status_code == 409
    assert "View the current version" in stale.text
    assert "<code>web</code> overrides the file" in browser.get("/admin/mcp").text
    assert browser.get("/admin/overrides").text.count('href="/admin/overrides/') == 1
    cards = script.get("/admin/settings").json()["data"]
    assert [card["key"] for card in cards if card["is_overridden"]] == ["mcp"]


@pytest.mark.parametrize("key", ["agents", "server"])
def test_section_that_is_not_stored_has_a_read_only_page(browser, key):
    page = browser.get(f"/admin/settings/{key}").text
    assert "Read-only: " in page
    assert ">Save<" not in page


def test_page_of_the_whole_file_says_where_edits_go(browser, settings):
    page = browser.get("/admin/config/edit").text
    assert "the file stays as it is" in page
    assert 'href="/admin/config?format=yaml" download="coulisse.yaml"' in page
    settings.COULISSE_STUDIO_EDITS = "file"
    page = browser.get("/admin/config/edit").text
    assert "the file stays as it is" not in page
    assert "download=" not in page


def test_deleted_file_does_not_stop_edits(script, yaml, text):
    yaml.unlink()
    assert put(script, "/admin/telemetry", "fmt: {enabled: false}").is_success
    assert not live.current().get(TELEMETRY).fmt.enabled
    assert not yaml.exists()


def test_entries_and_sections_are_overridden_together(script):
    agent = "name: tuned\nprovider: openai\nmodel: gpt-new\npreamble: Be ${vars.tone}."
    assert put(script, "/admin/settings/vars", "tone: kind").is_success
    assert put(script, "/admin/agents/tuned", agent).is_success
    assert live.current().get(AGENTS)["tuned"].preamble == "Be kind."
    assert put(script, "/admin/settings/vars", "tone: brief").is_success
    assert live.current().get(AGENTS)["tuned"].preamble == "Be brief."


def test_invalid_text_is_refused_with_its_line(script, browser):
    refused = put(script, "/admin/telemetry", "fmt: {enabled: perhaps}")
    assert refused.status_code == 422
    draft = {"yaml": "fmt:\n  enabled: perhaps", "at": "telemetry"}
    (problem,) = script.post("/admin/config/check", json=draft).json()["problems"]
    assert (problem["line"], problem["column"]) == (2, 3)
    assert stored() == {}


def test_entry_without_a_value_is_stored_as_an_empty_one(script):
    shown = script.get("/admin/providers", headers=WANTS_YAML).text
    assert put(script, "/admin/providers", f"{shown}\nlocal:").is_success
    assert stored() == {("providers", "local"): "{}"}
    assert live.current().get(PROVIDERS)["local"].kind == "local"


def test_tokens_are_required_for_all_processes(script, yaml, text):
    assert script.post("/admin/tokens/enable").is_success
    assert live.current().get(AUTH).requires_tokens
    assert set(stored()) == {("auth", "auth")}
    assert yaml.read_text() == text


def test_name_that_is_too_long_to_store_is_refused(script):
    created = script.post("/admin/providers", json={"name": "n" * 256, "kind": "local"})
    assert created.status_code == 422
    assert "at most 255 characters" in error_of(created)["message"]
    assert stored() == {}


def test_pages_show_overrides_of_a_newer_release(script):
    Override.objects.store(Overlay("future", "future", "x: 1"), by="user:ada")
    live.apply_overrides()
    for path in ("/admin/", "/admin/overrides", "/admin/override-history"):
        page = script.get(path)
        assert page.status_code == 200, path
    home = script.get("/admin/", headers={"Accept": "application/json"}).json()
    assert "/admin/overrides" in [each["address"] for each in home["alerts"]]
