"""A file deleted at run time: its last valid content is shown and can be saved."""

import stat

import pytest

from access.models import AuditEntry
from config.editing.secret_masks import MASK
from config.loading import last_valid_copy
from tests.conftest import CONFIG

pytestmark = pytest.mark.database

AS_YAML = {"Content-Type": "application/yaml"}


@pytest.fixture
def yaml(configure, tmp_path, settings):
    """The path of the deleted file; the state directory has its last valid content."""
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"
    settings.COULISSE_STATE_DIR.mkdir()
    configure(CONFIG.lstrip() + "# the end\n")
    path = tmp_path / "coulisse.yaml"
    last_valid_copy.write_copy(path.read_bytes())
    path.unlink()
    return path


@pytest.fixture
def text(yaml):
    """The last valid content."""
    return last_valid_copy.read_copy().decode()


def test_browser_is_offered_the_last_valid_file(browser, yaml, text):
    page = browser.get("/admin/config/edit").text
    assert "The file is missing" in page
    assert "# the end" in page
    assert "sk-openai" not in page
    version = page.partition('name="version" value="')[2].partition('"')[0]
    current = text.replace("sk-openai-q7Vd2mXw9Lr4TzK8bNf3HcYs", MASK).replace(
        "sk-anthropic-9Rk3ZpQ8wXv5LmT2dHs7YgCb", MASK
    )
    fields = {"_method": "PUT", "yaml": current, "version": version}
    page = browser.submit("/admin/config/edit", fields)
    assert "coulisse.yaml saved" in page.text
    assert yaml.read_text() == text
    assert stat.S_IMODE(yaml.stat().st_mode) == 0o600
    assert "The file is missing" not in browser.get("/admin/config/edit").text


def test_script_restores_the_file_from_yaml(script, yaml, text):
    current = script.get("/admin/config")
    sent = script.put(
        "/admin/config",
        content=current.content,
        headers={**AS_YAML, "If-Match": current.headers["ETag"]},
    )
    assert sent.status_code == 200
    assert yaml.read_text() == text
    (entry,) = AuditEntry.objects.filter(action="config.write").order_by("-id")[:1]
    assert entry.target.endswith("coulisse.yaml")


def test_json_restores_the_file_with_comments(script, yaml, text):
    data = script.get("/admin/config", headers={"Accept": "application/json"}).json()
    assert script.put("/admin/config", json=data).status_code == 200
    assert yaml.read_text() == text


def test_section_write_is_refused(script, yaml):
    response = script.put("/admin/telemetry", json={"fmt": {"enabled": True}})
    assert response.status_code == 422
    assert "the file does not exist; save the whole file" in response.text
    draft = {"yaml": "fmt: {enabled: true}", "at": "telemetry"}
    checked = script.post("/admin/config/check", json=draft).json()
    (problem,) = checked["problems"]
    assert "the file does not exist" in problem["message"]
    assert script.get("/admin/telemetry").json() == {}
    assert not yaml.exists()


def test_recreated_file_is_not_overwritten(script, yaml, text):
    current = script.get("/admin/config").headers["ETag"]
    yaml.write_text("agents: []\n")
    headers = {**AS_YAML, "If-Match": current}
    sent = script.put("/admin/config", content=text, headers=headers)
    assert sent.status_code == 409
    assert yaml.read_text() == "agents: []\n"


def test_missing_copy_is_reported(script, yaml, settings):
    (settings.COULISSE_STATE_DIR / last_valid_copy.FILE_NAME).unlink()
    wants_json = {"Accept": "application/json"}
    response = script.get("/admin/config", headers=wants_json)
    assert response.status_code == 422
    assert "the file does not exist" in response.json()["error"]["message"]
