"""The API of agents, judges, experiments and smoke tests."""

import pytest
from ruamel.yaml import YAML

from access.models import AuditEntry
from config.models import OverrideVersion
from studio.configuration.entry_types import KINDS
from tests.studio.configuration.entries.entry_requests import (
    NEW_AGENT,
    NEW_ENTRIES,
    YAML_TYPE,
    labels,
    post,
    put_entry,
)

pytestmark = pytest.mark.database


def test_script_overrides_and_resets_an_entry(script):
    response = put_entry(script, "agents/tuned", NEW_AGENT.replace("bob", "tuned"))
    assert response.status_code == 200
    data = response.json()
    assert (data["label"], data["config"]["model"]) == ("override", "gpt-x")
    assert "+model: gpt-x # the new one" in data["diff"]
    assert labels(script)["tuned"] == "override"
    assert script.post("/admin/agents/tuned/reset").json()["label"] == "yaml"
    assert script.post("/admin/agents/tuned/reset").status_code == 409


def test_clients_see_changes_at_once(script, client, fake):
    assert post(script, "agents", NEW_AGENT).status_code == 201
    assert "bob" in [model.id for model in client.models.list()]
    script.delete("/admin/agents/forgetful")
    assert script.delete("/admin/agents/claude").status_code == 422
    script.delete("/admin/agents/bob")
    assert "bob" not in [model.id for model in client.models.list()]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.path)
def test_every_kind_is_created_changed_and_deleted(script, browser, kind):
    response = post(script, kind.path, NEW_ENTRIES[kind.path])
    assert response.status_code == 201, response.text
    assert response.headers["Location"] == f"/admin/{kind.path}/bob"
    address = f"{kind.path}/bob"
    assert script.get(f"/admin/{address}").json()["label"] == "dynamic"
    assert post(script, kind.path, NEW_ENTRIES[kind.path]).status_code == 409
    # What a script gets it can send back.
    config = script.get(f"/admin/{address}").json()["config"]
    assert script.put(f"/admin/{address}", json=config).status_code == 200
    for page in (kind.path, address, f"{address}/edit", f"{kind.path}/new"):
        assert browser.get(f"/admin/{page}").status_code == 200
    assert script.delete(f"/admin/{address}").json() == {"name": "bob", "deleted": True}
    assert script.get(f"/admin/{address}").status_code == 404


def test_entry_as_yaml_is_returned_as_written(script):
    post(script, "agents", NEW_AGENT)
    expected = {"Accept": "application/yaml"}
    data = script.get("/admin/agents/bob", headers=expected)
    assert data.text == NEW_AGENT
    assert script.get("/admin/agents/tuned?format=yaml").text == (
        "name: tuned\nprovider: openai\nmodel: gpt-test\ntemperature: 0.0\n"
        "max_tokens: 50\nseed: 7\n"
    )
    assert put_entry(script, "agents/bob", data.text).status_code == 200
    listed = YAML(typ="safe").load(script.get("/admin/agents?format=yaml").text)
    assert listed["data"][-1]["name"] == "bob"


def test_validation_errors_are_returned_verbatim(script):
    response = put_entry(
        script, "agents/tuned", "name: tuned\nprovider: opena\nmodel: x\n"
    )
    assert response.status_code == 422
    error = response.json()["error"]
    assert error["message"] == (
        "agent 'tuned' in the studio:2:1: agent 'tuned' uses provider 'opena', which "
        "is not under providers:; did you mean 'openai'?"
    )
    assert (error["problems"][0]["line"], error["problems"][0]["column"]) == (2, 1)
    response = script.delete("/admin/agents/tuned")
    assert response.status_code == 422
    assert "experiment 'trial' has the variant 'tuned'" in response.text
    assert "agent 'team' calls agent 'tuned'" in response.text
    assert "smoke test 'greeting' talks to 'tuned'" in response.text


@pytest.mark.parametrize(
    ("method", "path", "text", "status", "message"),
    [
        ("PUT", "agents/tuned", "name: [", 400, "not valid YAML"),
        ("PUT", "agents/tuned", "- a", 400, "map"),
        ("PUT", "agents/tuned", NEW_AGENT, 422, "in the URL"),
        (
            "PUT",
            "agents/nobody",
            NEW_AGENT.replace("bob", "nobody"),
            404,
            "there is no agent",
        ),
        ("PUT", "agents/tuned?version=x", NEW_AGENT, 400, "whole number"),
        (
            "POST",
            "agents",
            NEW_AGENT.replace("bob", "tuned"),
            409,
            "already has the name",
        ),
        ("POST", "agents", "provider: openai\n", 422, "'name' is missing"),
        (
            "POST",
            "agents",
            NEW_AGENT.replace("bob", "new"),
            422,
            "a page of the studio",
        ),
        ("DELETE", "agents/nobody", "", 404, "there is no agent"),
        ("POST", "agents/nobody/reset", "", 404, "there is no agent"),
        ("POST", "agents/tuned/reset", "", 409, "has no override to reset"),
        ("GET", "agents/nobody", "", 404, "there is no agent"),
        ("GET", "agents/nobody/edit", "", 404, "there is no agent"),
        ("GET", "agents/tuned/edit?from=7", "", 404, "has no version 7"),
        ("GET", f"agents/tuned/edit?from={'9' * 30}", "", 400, "a whole number"),
        ("GET", "agents/tuned/edit?from=x", "", 400, "a whole number"),
        ("GET", "agents/tuned/reset", "", 405, ""),
    ],
)
def test_invalid_request_is_refused(script, method, path, text, status, message):
    response = script.request(
        method, f"/admin/{path}", content=text, headers=YAML_TYPE if text else {}
    )
    assert response.status_code == status, response.text
    assert message in response.json()["error"]["message"]
    assert not OverrideVersion.objects.exists()


def test_outdated_version_is_refused(script):
    post(script, "agents", NEW_AGENT)
    current = script.get("/admin/agents/bob").json()["version"]
    newer = NEW_AGENT.replace("gpt-x", "gpt-y")
    assert put_entry(script, f"agents/bob?version={current}", newer).status_code == 200
    response = put_entry(script, f"agents/bob?version={current}", NEW_AGENT)
    assert response.status_code == 409
    assert response.json()["error"]["code"] == "edit_conflict"
    assert script.delete(f"/admin/agents/bob?version={current}").status_code == 409
    matched = {"If-Match": f'"{current}"'}
    assert script.delete("/admin/agents/bob", headers=matched).status_code == 409
    assert script.delete("/admin/agents/bob").status_code == 200


@pytest.mark.parametrize("kind", ["application/json", "application/yaml"])
def test_etag_guards_against_lost_updates(script, kind):
    created = post(script, "agents", NEW_AGENT)
    current = script.get("/admin/agents/bob", headers={"Accept": kind}).headers["ETag"]
    assert current == created.headers["ETag"]
    response = put_entry(
        script, "agents/bob", NEW_AGENT.replace("gpt-x", "y"), {"If-Match": current}
    )
    assert response.status_code == 200
    assert response.headers["ETag"] != current
    late = put_entry(script, "agents/bob", NEW_AGENT, {"If-Match": current})
    assert late.status_code == 409
    assert (
        put_entry(script, "agents/bob", NEW_AGENT, {"If-Match": "*"}).status_code == 200
    )


def test_form_fields_make_an_entry(script):
    fields = {"name": "bob", "provider": "openai", "model": "gpt-x", "max_turns": "3"}
    created = script.post("/admin/agents", data=fields)
    assert created.status_code == 201, created.text
    assert created.json()["yaml"] == (
        "name: bob\nprovider: openai\nmodel: gpt-x\nmax_turns: '3'\n"
    )
    late = script.put("/admin/agents/bob", data={**fields, "version": "0"})
    assert late.status_code == 409
    nothing = script.post("/admin/agents", data={"version": "0"})
    assert nothing.status_code == 422
    assert "is empty" in nothing.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [(b"name: b\xff", "not UTF-8"), (b"\n", "empty; send one agent")],
)
def test_non_text_body_is_refused(script, body, message):
    response = put_entry(script, "agents/tuned", body)
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]


def test_names_may_contain_any_characters(script, browser):
    name = "team/é 100%?"
    text = f"name: {name!r}\nprovider: openai\nmodel: m\n"
    location = post(script, "agents", text).headers["Location"]
    assert script.get(location).json()["name"] == name
    page = browser.get(location)
    assert f'action="{location}"' in page.text.replace("%C3%A9", "%C3%A9")
    assert browser.get(f"{location}/edit").status_code == 200
    assert script.delete(location).status_code == 200


def test_extra_body_placeholders_are_shown_unresolved(script, browser, monkeypatch):
    monkeypatch.setenv("SOME_SECRET", "hush-hush-hush")
    text = NEW_AGENT + "extra_body: {key: '${SOME_SECRET}'}\n"
    assert post(script, "agents", text).status_code == 201
    data = script.get("/admin/agents/bob").json()
    assert data["yaml"] == text
    assert data["history"][0]["yaml"] == text
    for path in ("agents/bob", "agents/bob/edit", "agents"):
        assert "hush" not in browser.get(f"/admin/{path}").text
        assert "hush" not in script.get(f"/admin/{path}").text


def test_draft_is_checked_without_saving(script):
    def problems_of(path, yaml):
        response = script.post(f"/admin/{path}/check", json={"yaml": yaml, "at": "x"})
        return [(each["line"], each["message"]) for each in response.json()["problems"]]

    assert (
        problems_of("agents", NEW_AGENT)
        == problems_of("agents/tuned", NEW_AGENT.replace("bob", "tuned"))
        == []
    )
    ((line, data),) = problems_of("agents", NEW_AGENT.replace("openai", "opena"))
    assert (line, data[:34]) == (2, "agent 'bob' uses provider 'opena',")
    assert problems_of("agents/tuned", NEW_AGENT)[0][0] == 1
    assert "not valid YAML" in problems_of("agents", "name: [")[0][1]
    # Problems of other entries name the place in the file.
    unscored = "name: team\nprovider: openai\nmodel: m\n"
    ((line, data),) = problems_of("agents/team", unscored)
    assert line is None
    assert "coulisse.yaml:" in data
    assert "experiment 'best' uses metric 'quality.clear', but its variant" in data
    assert not OverrideVersion.objects.exists()


def test_viewers_are_read_only(viewer, operator, configure):
    assert viewer.get("/admin/agents").status_code == 200
    assert viewer.get("/admin/agents/tuned").status_code == 200
    assert post(viewer, "agents", NEW_AGENT).status_code == 403
    assert put_entry(viewer, "agents/tuned", NEW_AGENT).status_code == 403
    assert viewer.delete("/admin/agents/tuned").status_code == 403
    assert viewer.post("/admin/agents/tuned/reset").status_code == 403
    page = viewer.get("/admin/agents/tuned", headers={"Accept": "text/html"}).text
    assert "tuned/edit" not in page
    empty = viewer.get("/admin/judges", headers={"Accept": "text/html"}).text
    assert "Operators can create them." in empty
    assert "/admin/judges/new" not in empty
    assert not OverrideVersion.objects.exists()


def test_changes_are_audited_without_text(script):
    AuditEntry.objects.all().delete()
    post(script, "judges", NEW_ENTRIES["judges"])
    put_entry(script, "judges/bob", NEW_ENTRIES["judges"])  # unchanged
    put_entry(
        script, "judges/bob", NEW_ENTRIES["judges"].replace("model: j", "model: k")
    )
    script.delete("/admin/judges/bob")
    put_entry(script, "smoke/greeting", NEW_ENTRIES["smoke"].replace("bob", "greeting"))
    script.delete("/admin/smoke/greeting")
    script.delete("/admin/smoke/greeting")  # unchanged
    script.post("/admin/smoke/greeting/reset")
    script.delete("/admin/smoke/nothing")
    data = list(AuditEntry.objects.order_by("id"))
    assert [(entry.action, entry.target) for entry in data] == [
        ("judge.create", "bob"),
        ("judge.save", "bob"),
        ("judge.delete", "bob"),
        ("smoke_test.save", "greeting"),
        ("smoke_test.disable", "greeting"),
        ("smoke_test.reset", "greeting"),
    ]
    assert {entry.actor for entry in data} == {"studio: local"}
    assert "rubrics" not in str([entry.details for entry in data])
