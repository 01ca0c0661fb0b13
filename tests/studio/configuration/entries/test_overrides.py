"""The table of overrides, and their history."""

import pytest

from access.models import AuditEntry
from agents.config import AGENTS
from config import live
from config.loading.overlays import Overlay
from config.models import Override
from experiments.config import EXPERIMENTS
from tests.studio.configuration.entries.entry_requests import NEW_AGENT, post

pytestmark = pytest.mark.database

LIST, HISTORY = "/admin/overrides", "/admin/override-history"


def listed(script, **query):
    rows = script.get(LIST, params=query).json()["data"]
    return {row["name"]: row for row in rows}


def test_overrides_are_listed_and_removed(script, browser):
    post(script, "agents", NEW_AGENT)
    assert script.delete("/admin/experiments/best").status_code == 200
    rows = listed(script)
    assert (rows["bob"]["is_tombstone"], rows["best"]["is_tombstone"]) == (False, True)
    assert set(listed(script, section="agents")) == {"bob"}
    assert "bob" in browser.get(LIST).text
    page = browser.get(f"{LIST}/{rows['bob']['id']}").text
    assert 'href="/admin/agents/bob"' in page
    assert "provider: openai" in page
    for name, action in (("bob", "agent.delete"), ("best", "experiment.reset")):
        removed = script.post(f"{LIST}/{rows[name]['id']}/remove")
        assert removed.json() == {"name": name, "deleted": True}
        entry = AuditEntry.objects.latest("id")
        assert (entry.action, entry.target) == (action, name)
    assert listed(script) == {}
    config = live.current()
    assert "bob" not in config.get(AGENTS)
    assert "best" in config.get(EXPERIMENTS)
    actions = [row["action"] for row in script.get(HISTORY).json()["data"][:4]]
    assert actions == ["reset", "removed", "tombstoned", "saved"]
    assert browser.get(HISTORY).status_code == 200


def test_override_in_use_is_not_removed(script, browser):
    post(script, "agents", NEW_AGENT)
    team = "name: crew\nprovider: openai\nmodel: gpt-test\nsubagents: [bob]\n"
    post(script, "agents", team)
    row = listed(script)["bob"]
    refused = script.post(f"{LIST}/{row['id']}/remove")
    assert refused.status_code == 422
    page = browser.submit(f"{LIST}/{row['id']}/remove", {}, form_page=LIST)
    assert "is in use" in page.text
    assert set(listed(script)) == {"bob", "crew"}


def test_viewers_only_see_overrides(viewer):
    Override.objects.store(Overlay("agents", "bob", NEW_AGENT), by="studio: olga")
    row = listed(viewer)["bob"]
    assert viewer.get(LIST).status_code == 200
    assert viewer.post(f"{LIST}/{row['id']}/remove").status_code == 403
