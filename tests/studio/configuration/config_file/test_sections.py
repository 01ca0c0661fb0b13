"""Sections of the file: read and replaced by scripts, with roles and audit."""

import json

import pytest

from access.audit import config_reloads
from access.models import AuditEntry
from config.loading import loader
from tests.studio.configuration.config_file.file_requests import (
    AS_YAML,
    WANTS_YAML,
    error_of,
)

pytestmark = pytest.mark.database


def test_section_is_returned_as_json_and_yaml(script, yaml):
    assert script.get("/admin/telemetry").json() == {"fmt": {"enabled": True}}
    written = script.get("/admin/telemetry", headers=WANTS_YAML)
    assert written.text == "# on stderr\nfmt: {enabled: true}"
    assert written.headers["ETag"]
    assert script.get("/admin/auth").json() == {}
    assert script.get("/admin/settings/sidecars").json() == []
    assert script.get("/admin/settings/users").json() == ""


def test_yaml_is_written_as_typed(script, yaml, text):
    response = script.put(
        "/admin/telemetry", content="fmt:\n  enabled: false # quiet\n", headers=AS_YAML
    )
    assert response.json() == {"fmt": {"enabled": False}}
    assert yaml.read_text() == text.replace(
        "  # on stderr\n  fmt: {enabled: true}\n",
        "  fmt:\n    enabled: false # quiet\n",
    )


def test_json_changes_only_what_differs(script, yaml, text):
    response = script.put("/admin/telemetry", json={"fmt": {"enabled": False}})
    assert response.status_code == 200
    assert yaml.read_text() == text.replace("{enabled: true}", "{enabled: false}")
    loader.load_file(yaml)


def test_missing_section_is_added(script, yaml, text):
    script.put("/admin/memory", content="user_state: false # no\n", headers=AS_YAML)
    assert yaml.read_text() == text + "\nmemory:\n  user_state: false # no\n"
    assert script.get("/admin/memory").json() == {"user_state": False}
    assert script.get("/admin/settings/memory").json() == {"user_state": False}


def test_invalid_section_is_refused_with_its_location(script, yaml, text):
    response = script.put("/admin/telemetry", json={"fmt": {"enabled": "perhaps"}})
    assert response.status_code == 422
    (problem,) = error_of(response)["problems"]
    line = text.splitlines().index("  fmt: {enabled: true}") + 1
    assert problem["location"] == ["telemetry", "fmt", "enabled"]
    assert problem["line"] == line
    assert error_of(response)["message"].endswith(problem["message"])
    assert yaml.read_text() == text


@pytest.mark.parametrize("body", [b"fmt: {", b"a: 1\n  b: 2", b"\xff\xfe", b"'"])
def test_malformed_yaml_is_refused(script, yaml, text, body):
    response = script.put("/admin/telemetry", content=body, headers=AS_YAML)
    assert response.status_code == 400
    assert script.put("/admin/config", content=body, headers=AS_YAML).status_code == 400
    assert yaml.read_text() == text


@pytest.mark.parametrize(
    ("path", "content", "body"),
    [
        ("auth", "application/json", b""),
        ("auth", "application/yaml", b" \n"),
        ("settings/vars", "application/x-www-form-urlencoded", b""),
        ("telemetry", "multipart/form-data; boundary=x", b"lost"),
        ("mcp/web", "application/json", b""),
    ],
)
def test_empty_body_does_not_clear_a_section(script, yaml, text, path, content, body):
    headers = {"Content-Type": content}
    response = script.put(f"/admin/{path}", content=body, headers=headers)
    assert response.status_code == 400
    assert yaml.read_text() == text
    script.put("/admin/telemetry", json={})
    assert script.get("/admin/telemetry").json() == {}


def test_file_edit_conflict_is_not_overwritten(script, yaml, text):
    current = script.get("/admin/telemetry").headers["ETag"]
    yaml.write_text(text + "# by hand\n")
    for path, body in [
        ("/admin/telemetry", "{}"),
        ("/admin/config", text),
        ("/admin/mcp/web", "url: http://127.0.0.1:8/\noauth: false"),
    ]:
        headers = {**AS_YAML, "If-Match": current}
        assert script.put(path, content=body, headers=headers).status_code == 409
    version = current.strip('"')
    response = script.delete(f"/admin/mcp/web?version={version}")
    assert response.status_code == 409
    assert yaml.read_text() == text + "# by hand\n"


def test_storage_is_checked_before_it_is_written(script, yaml):
    response = script.put("/admin/storage", json={"backend": "s3"})
    assert response.status_code == 422
    assert error_of(response)["problems"][0]["code"] == "coulisse.E571"
    settings = {"backend": "s3", "s3": {"bucket": "my-files"}}
    assert script.put("/admin/storage", json=settings).is_success
    assert script.get("/admin/storage").json() == settings


def test_unknown_section_is_not_found(script, yaml):
    assert script.get("/admin/settings/nonsense").status_code == 404


def test_viewers_are_read_only(viewer, configure, tmp_path, settings):
    path = tmp_path / "coulisse.yaml"
    before = path.read_text()
    assert viewer.get("/admin/config").status_code == 200
    assert "operates-it-all" not in viewer.get("/admin/config").text
    assert viewer.put("/admin/telemetry", json={}).status_code == 403
    assert viewer.post("/admin/providers", json={"kind": "groq"}).status_code == 403
    assert viewer.delete("/admin/providers/claude").status_code == 403
    assert viewer.put("/admin/config", json={}).status_code == 403
    page = viewer.get("/admin/config/edit", headers={"Accept": "text/html"})
    assert "readonly" in page.text
    assert ">Save<" not in page.text
    assert path.read_text() == before


def test_writes_are_audited_and_refusals_are_not(script, yaml):
    before = AuditEntry.objects.filter(action="config.write").count()
    script.put("/admin/telemetry", json={"fmt": {"enabled": 7}})
    script.put("/admin/telemetry", json={"fmt": {"enabled": True}})  # as it is
    script.post("/admin/providers", json={"kind": "groq", "api_key": "gsk-secret-1"})
    entries = AuditEntry.objects.filter(action="config.write").order_by("-id")
    assert entries.count() == before + 1
    assert entries[0].details["section"] == "providers"
    assert entries[0].details["entry"] == "groq"
    assert entries[0].target.endswith("coulisse.yaml")
    assert "gsk" not in json.dumps(entries[0].details)


def test_studio_write_is_not_audited_again_on_reload(script, yaml):
    script.post("/admin/providers", json={"kind": "groq", "api_key": "gsk-secret-1"})
    taken = loader.load_file(yaml)
    config_reloads.record_reload(taken, ["providers"])
    data = AuditEntry.objects.filter(details__digest=taken.digest)
    assert [entry.action for entry in data] == [config_reloads.WRITE_ACTION]
