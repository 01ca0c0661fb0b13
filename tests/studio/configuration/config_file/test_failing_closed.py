"""Overrides that do not fit on this machine, of sections that fail closed."""

import pytest

from access.authentication.config import AUTH
from access.limits.config import LIMITS
from agents.config import AGENTS
from config import live
from config.errors import ConfigInvalid
from config.loading import last_valid_copy
from config.loading.overlays import Overlay
from config.models import Override
from tests.studio.configuration.config_file.file_requests import AS_YAML
from tests.studio.configuration.entries.conftest import delete_overrides

pytestmark = pytest.mark.database

LOGIN = "proxy: {basic: {username: app, password: '${TEST_LOGIN}'}}"


@pytest.fixture(autouse=True)
def _stored_in_database(server, yaml, settings):
    settings.COULISSE_STUDIO_EDITS = "database"
    delete_overrides()
    yield
    delete_overrides()


def put(script, path, text):
    return script.put(path, content=text, headers=AS_YAML)


def reset(script, section):
    row = Override.objects.get(section=section)
    return script.post(f"/admin/overrides/{row.pk}/remove")


def test_limits_are_not_lifted_by_a_file_that_they_do_not_fit(script, yaml, text):
    limits = "- {per: principal, requests_per_day: 9}\n- {per: agent, name: tuned, "
    put(script, "/admin/settings/limits", f"{limits}concurrent: 2}}")
    assert len(live.current().get(LIMITS)) == 2
    watcher = live.ConfigWatcher()
    renamed = text.replace("name: tuned", "name: other")
    yaml.write_text(renamed)
    for _ in range(2):
        watcher.poll()
    assert len(live.current().get(LIMITS)) == 2
    refused = str(live.file_error())
    assert refused.startswith("'limits' in the studio:2:")
    assert "agent 'tuned', which does not exist" in refused
    assert "`coulisse overrides reset limits`" in refused
    # The edit applies when it fits.
    put(script, "/admin/settings/limits", limits.split("\n")[0])
    watcher.poll()
    assert live.file_error() is None
    assert "other" in live.current().get(AGENTS)


def store_elsewhere(section, text):
    """Store an override as another machine does, where it fits."""
    Override.objects.store(Overlay(section, section, text), by="user:ada")
    live.apply_overrides()


def test_login_that_cannot_apply_keeps_the_previous_one(script, yaml, text, caplog):
    store_elsewhere("auth", LOGIN)
    config = live.current()
    assert config.rejected_overrides == ()
    assert config.overlays.entries == ()
    lines = str(live.override_error()).splitlines()
    assert "environment variable 'TEST_LOGIN' is not set; set it" in lines[0]
    assert lines[0].startswith("'auth' in the studio:1:")
    assert "`coulisse overrides reset auth`" in lines[1]
    assert caplog.text.count("the previous configuration stays in force") == 1
    ready = script.get("/health/ready")
    assert ready.status_code == 503
    assert ready.json()["checks"] == {"configuration": "invalid", "database": "ok"}
    assert live.file_digest() not in (config.digest, "")
    home = script.get("/admin/", headers={"Accept": "application/json"}).json()
    (alert,) = [each for each in home["alerts"] if "previous ones" in each["message"]]
    assert "TEST_LOGIN" in alert["details"]
    # An edit of the file still applies, and does not hide the problem.
    watcher = live.ConfigWatcher()
    yaml.write_text(text.replace("name: tuned", "name: other"))
    watcher.poll()
    assert "other" in live.current().get(AGENTS)
    assert script.get("/health/ready").status_code == 503
    # Its pages still answer, and remove it.
    for path in ("/admin/overrides", "/admin/auth", "/admin/config", "/admin/settings"):
        assert script.get(path).status_code == 200, path
    assert reset(script, "auth").is_success
    assert script.get("/health/ready").status_code == 200
    assert live.file_digest() == live.current().digest


def test_login_that_cannot_apply_prevents_a_start(yaml, monkeypatch):
    store_elsewhere("auth", LOGIN)
    last_valid_copy.write_copy(yaml.read_bytes())
    live.set_current(None)
    with pytest.raises(ConfigInvalid, match="'TEST_LOGIN' is not set; set it"):
        live.load_at_start()
    monkeypatch.setenv("TEST_LOGIN", "a-long-password-of-the-app")
    live.load_at_start()
    assert live.current().get(AUTH).proxy.basic.username == "app"
    assert live.override_error() is None


def test_limit_applies_when_an_edit_of_the_file_fits_it(script, yaml, text):
    limit = "[{per: agent, name: other, concurrent: 2}]"
    store_elsewhere("limits", limit)
    assert "agent 'other', which does not exist" in str(live.override_error())
    watcher = live.ConfigWatcher()
    yaml.write_text(text.replace("name: tuned", "name: other"))
    watcher.poll()
    assert live.override_error() is None
    assert len(live.current().get(LIMITS)) == 1
