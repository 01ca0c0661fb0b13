"""The pages of agents, judges, experiments and smoke tests."""

from datetime import UTC, datetime

import pytest

from config import live
from config.models import OverrideVersion
from studio.configuration.entry_types import KINDS
from tests.conftest import CONFIG
from tests.studio.configuration.entries.entry_requests import (
    FULL_CONFIG,
    NEW_AGENT,
    NEW_ENTRIES,
    labels,
    post,
    put_entry,
)

pytestmark = pytest.mark.database


def test_browser_creates_edits_disables_and_resets(browser, script):
    page = browser.submit(
        "/admin/agents", {"yaml": NEW_AGENT}, form_page="/admin/agents/new"
    )
    assert page.url.path == "/admin/agents/bob"
    assert "Agent &#x27;bob&#x27; created" in page.text
    changed = {
        "_method": "PUT",
        "yaml": NEW_AGENT.replace("gpt-x", "gpt-y"),
        "version": "",
    }
    page = browser.submit(
        "/admin/agents/bob", changed, form_page="/admin/agents/bob/edit"
    )
    assert "Agent &#x27;bob&#x27; saved" in page.text
    assert "model: gpt-y # the new one" in page.text
    page = browser.submit("/admin/agents/bob", {"_method": "DELETE"})
    assert page.url.path == "/admin/agents"
    assert "Agent &#x27;bob&#x27; deleted" in page.text
    page = browser.submit("/admin/agents/assistant", {"_method": "DELETE"})
    assert "Disabled, so clients cannot use it" in page.text
    page = browser.submit(
        "/admin/agents/assistant/reset", {}, form_page="/admin/agents/assistant"
    )
    assert labels(script)["assistant"] == "yaml"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.path)
def test_new_entry_template_is_valid(script, kind):
    text = script.get(f"/admin/{kind.path}/new").json()["yaml"]
    checked = script.post(f"/admin/{kind.path}/check", json={"yaml": text})
    assert checked.json() == {"problems": []}
    assert post(script, kind.path, text).status_code == 201


def test_new_agent_template_prefers_a_large_model(script, configure):
    small = "agents:\n  - {name: small, provider: local, model: any}\n"
    text = CONFIG.replace("agents:\n", small)
    configure(text.replace("providers:\n", "providers:\n  local: {}\n"))
    for path in ("agents", "judges", "smoke"):
        text = script.get(f"/admin/{path}/new").json()["yaml"]
        assert "provider: openai" in text
        assert "provider: local" not in text


def test_refused_form_keeps_its_input(browser, script):
    typed = {"_method": "PUT", "yaml": "name: tuned\nprovider: opena\nmodel: mine\n"}
    page = browser.submit(
        "/admin/agents/tuned",
        {**typed, "version": "0"},
        form_page="/admin/agents/tuned/edit",
    )
    assert page.status_code == 422
    assert "provider: opena\nmodel: mine\n</textarea>" in page.text
    assert 'data-line="2"' in page.text
    assert '<input type="hidden" name="version" value="0">' in page.text
    page = browser.submit(
        "/admin/agents", {"yaml": "name: tuned"}, form_page="/admin/agents/new"
    )
    assert page.status_code == 409
    assert (
        "name: tuned\n</textarea>" in page.text or "name: tuned</textarea>" in page.text
    )
    assert "<h1>New agent" in page.text


def test_second_of_two_editors_gets_a_conflict(browser, script):
    put_entry(script, "agents/tuned", NEW_AGENT.replace("bob", "tuned"))
    typed = {
        "_method": "PUT",
        "yaml": NEW_AGENT.replace("bob", "tuned"),
        "version": "0",
    }
    page = browser.submit(
        "/admin/agents/tuned", typed, form_page="/admin/agents/tuned/edit"
    )
    assert page.status_code == 409
    assert "was changed by studio: local since you opened it" in page.text


def test_conflict_page_shows_current_version_and_can_overwrite(browser, script):
    current = NEW_AGENT.replace("bob", "tuned")
    put_entry(script, "agents/tuned", current)
    edited = current.replace("gpt-x", "gpt-y")
    typed = {"_method": "PUT", "yaml": edited}
    edit = "/admin/agents/tuned/edit"
    page = browser.submit(
        "/admin/agents/tuned", {**typed, "version": "0"}, form_page=edit
    )
    assert page.status_code == 409
    assert f"{edited}</textarea>" in page.text
    assert '<a href="/admin/agents/tuned" target="_blank">View the current version' in (
        page.text
    )
    assert '<span class="del">-model: gpt-x # the new one</span>' in page.text
    assert '<span class="add">+model: gpt-y # the new one</span>' in page.text
    now = script.get("/admin/agents/tuned").json()["version"]
    assert f'<input type="hidden" name="version" value="{now}">' in page.text
    again = {**typed, "version": str(now)}
    page = browser.submit("/admin/agents/tuned", again, form_page=edit)
    assert page.status_code == 200
    assert script.get("/admin/agents/tuned").json()["yaml"] == edited


def test_conflict_page_reports_disabled_or_deleted_entry(browser, script):
    script.delete("/admin/experiments/trial")
    edited = NEW_ENTRIES["experiments"].replace("bob", "trial")
    typed = {"_method": "PUT", "yaml": edited, "version": "0"}
    edit = "/admin/agents/tuned/edit"
    page = browser.submit("/admin/experiments/trial", typed, form_page=edit)
    assert page.status_code == 409
    assert "was disabled by studio: local since you opened it" in page.text
    assert "It is disabled, and saving enables it." in page.text

    version = post(script, "agents", NEW_AGENT).json()["version"]
    script.delete("/admin/agents/bob")
    typed = {"_method": "PUT", "yaml": NEW_AGENT, "version": str(version)}
    page = browser.submit("/admin/agents/bob", typed, form_page=edit)
    assert page.status_code == 409
    assert "was deleted by studio: local since you opened it" in page.text
    assert "<h1>New agent" in page.text
    assert f"{NEW_AGENT}</textarea>" in page.text


def test_history_version_can_be_edited(browser, script):
    post(script, "agents", NEW_AGENT)
    put_entry(script, "agents/bob", NEW_AGENT.replace("gpt-x", "gpt-y"))
    first = script.get("/admin/agents/bob").json()["history"][-1]["id"]
    page = browser.get(f"/admin/agents/bob/edit?from={first}")
    assert "model: gpt-x # the new one" in page.text
    assert "model: gpt-y" in browser.get("/admin/agents/new?like=bob").text


@pytest.mark.parametrize("name", ["tuned", "bob"])
def test_unchanged_save_writes_nothing(browser, script, name):
    post(script, "agents", NEW_AGENT)
    wants_yaml = {"Accept": "application/yaml"}
    text = script.get(f"/admin/agents/{name}", headers=wants_yaml).text
    before = script.get(f"/admin/agents/{name}").json()
    typed = text.removesuffix("\n").replace("\n", "\r\n")
    fields = {"_method": "PUT", "yaml": typed, "version": str(before["version"])}
    page = browser.submit(
        f"/admin/agents/{name}", fields, form_page="/admin/agents/bob/edit"
    )
    assert f"Agent &#x27;{name}&#x27; is unchanged" in page.text
    assert put_entry(script, f"agents/{name}", text).json() == before
    assert labels(script)[name] == before["label"]


def test_saving_the_file_value_enables_the_entry_again(script):
    wants_yaml = {"Accept": "application/yaml"}
    text = script.get("/admin/smoke/greeting", headers=wants_yaml).text
    script.delete("/admin/smoke/greeting")
    put_entry(script, "smoke/greeting", text)
    assert labels(script, "smoke") == {"greeting": "override"}


def test_long_history_is_paginated(browser, script):
    post(script, "agents", NEW_AGENT)
    for _ in range(22):
        OverrideVersion.objects.create(
            section="agents", name="bob", action="saved", at=datetime.now(UTC), by="x"
        )
    first = script.get("/admin/agents/bob").json()
    assert (len(first["history"]), first["has_more"]) == (20, True)
    oldest = first["history"][-1]["id"]
    rest = script.get(f"/admin/agents/bob?before={oldest}").json()
    assert (len(rest["history"]), rest["has_more"]) == (3, False)
    assert f"?before={oldest}#configuration" in browser.get("/admin/agents/bob").text
    assert script.get("/admin/agents/bob?before=x").status_code == 400


def test_rejected_override_shows_its_reason(browser, script, configure):
    text = "name: bob\nprovider: anthropic\nmodel: m\n"
    post(script, "agents", text)
    smaller = FULL_CONFIG.replace("  anthropic:\n", "  other:\n    kind: anthropic\n")
    configure(smaller.replace("provider: anthropic", "provider: other"))
    live.apply_overrides()
    entry = script.get("/admin/agents/bob").json()
    assert (entry["is_rejected"], entry["is_active"]) == (True, False)
    assert "uses provider 'anthropic', which is not" in entry["reason"]
    page = browser.get("/admin/agents/bob").text
    assert "so this entry is not in effect" in page
    assert ">rejected<" in browser.get("/admin/agents").text


def test_empty_list_links_to_the_first_entry(browser, configure):
    configure(CONFIG)
    assert "Create the first judge" in browser.get("/admin/judges").text
    assert 'href="/admin/judges/new"' in browser.get("/admin/judges").text


def test_disabling_a_used_entry_lists_its_uses_on_its_page(browser, script):
    page = browser.submit("/admin/agents/tuned", {"_method": "DELETE"})
    assert page.status_code == 422
    assert "<h1>tuned" in page.text
    assert "agent &#x27;tuned&#x27; is in use; remove it from these entries first" in (
        page.text
    )
    assert "agent &#x27;team&#x27; calls agent &#x27;tuned&#x27;</li>" in page.text
    assert "does not exist" not in page.text
    problems = script.delete("/admin/agents/tuned").json()["error"]["problems"]
    assert [problem["code"] for problem in problems] == [
        "coulisse.E019",
        "coulisse.E206",
        "coulisse.E712",
        "coulisse.E802",
    ]
    assert labels(script)["tuned"] == "yaml"


def test_late_button_of_an_entry_returns_to_its_page(browser, script):
    put_entry(script, "agents/tuned", NEW_AGENT.replace("bob", "tuned"))
    page = browser.submit(
        "/admin/agents/tuned/reset", {"version": "0"}, form_page="/admin/agents/tuned"
    )
    assert page.status_code == 409
    assert "<h1>tuned" in page.text
    assert "was changed by studio: local since you opened it" in page.text
    assert labels(script)["tuned"] == "override"


def test_address_with_a_final_slash_redirects(browser):
    page = browser.get("/admin/agents/?x=1")
    assert (page.status_code, page.headers["Location"]) == (302, "/admin/agents?x=1")
    assert browser.http.post("/admin/agents/").status_code in (403, 404)
    assert browser.get("/admin/nonsense/").status_code == 404
