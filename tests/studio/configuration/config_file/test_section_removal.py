"""Saving an empty section, or null, removes it from the file."""

import pytest

from access.models import AuditEntry
from tests.conftest import CONFIG

pytestmark = pytest.mark.database

PATH = "/admin/settings/users"
YAML_TYPE = {"Content-Type": "application/yaml"}
JSON_TYPE = {"Content-Type": "application/json"}


@pytest.fixture
def yaml(configure, tmp_path, settings):
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"
    settings.COULISSE_STATE_DIR.mkdir()
    configure(CONFIG.lstrip() + "users: shared # all\n# the end\n")
    return tmp_path / "coulisse.yaml"


@pytest.mark.parametrize(
    ("method", "body", "headers"),
    [
        ("PUT", "null\n", YAML_TYPE),
        ("PUT", "~", YAML_TYPE),
        ("PUT", "null", JSON_TYPE),
        ("DELETE", "", {}),
    ],
)
def test_empty_section_is_removed_once(script, yaml, method, body, headers):
    without = yaml.read_text().replace("users: shared # all\n", "")
    before = AuditEntry.objects.count()
    for _ in range(2):
        response = script.request(method, PATH, content=body, headers=headers)
        assert response.status_code == 200
        data = {"name": "users", "deleted": True} if method == "DELETE" else ""
        assert response.json() == data
        assert yaml.read_text() == without
    assert AuditEntry.objects.count() == before + 1


def test_section_used_by_another_is_not_removed(script, yaml):
    before = yaml.read_text()
    response = script.delete("/admin/settings/providers")
    assert response.status_code == 422
    assert (
        "'providers:' (the model providers and their API keys) is missing"
        in response.json()["error"]["message"]
    )
    assert script.delete("/admin/settings/nonsense").status_code == 404
    assert yaml.read_text() == before


def test_section_is_not_removed_from_a_changed_file(script, yaml):
    headers = {"If-Match": "another"}
    assert script.delete(PATH, headers=headers).status_code == 409
    assert "users: shared" in yaml.read_text()


def test_form_reports_that_nothing_changed(browser, yaml):
    before = yaml.read_text()
    page = browser.submit(PATH, {"_method": "PUT", "yaml": "shared\r\n"})
    assert "No changes: the file already has this content" in page.text
    page = browser.submit(PATH, {"_method": "PUT", "yaml": ""})
    assert "Users saved" in page.text
    assert yaml.read_text() == before.replace("users: shared # all\n", "")
