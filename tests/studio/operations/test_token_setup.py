"""Enabling tokens in the studio changes all required sections at once."""

import pytest

from config import live
from config.loading import loader
from config.starters import starter_file
from tests.conftest import CONFIG

pytestmark = pytest.mark.database

AUTH = """
auth: # access
  admin:
    basic:
      - {username: olga, password: operates-it-all}
"""


@pytest.fixture
def yaml(configure, tmp_path, settings):
    """Put text into the file, and in force."""
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"
    settings.COULISSE_STATE_DIR.mkdir()
    path = tmp_path / "coulisse.yaml"

    def yaml(more: str):
        configure(CONFIG.lstrip() + more)
        return path

    return yaml


@pytest.mark.parametrize("role", ["users: shared", "default_user_id: main"])
def test_button_enables_tokens(browser, yaml, role):
    path = yaml(f"{role} # all of us\n# the end\n")
    page = browser.get("/admin/tokens").text
    assert "Tokens are not required yet" in page
    assert "belong to the user <code>main</code>" in page
    page = browser.submit("/admin/tokens/enable", {}, form_page="/admin/tokens")
    assert page.url.path == "/admin/tokens"
    assert "clients now need a token" in page.text
    assert "Tokens are not required yet" not in page.text
    assert role not in path.read_text()
    assert "# the end\n" in path.read_text()
    live.set_current(loader.load_file(path))
    assert "not required yet" not in browser.get("/admin/tokens").text


def test_enabling_tokens_keeps_other_settings(operator, yaml):
    path = yaml(AUTH)
    before = path.read_text()
    assert operator.post("/admin/tokens/enable").json() == {"is_on": True}
    assert path.read_text().startswith(before)
    assert operator.get("/admin/auth").json()["proxy"] == {"tokens": {}}


@pytest.mark.parametrize("kind", ["anthropic", "local", "openai", "tour"])
def test_starter_comments_about_users_are_removed(script, yaml, kind):
    text = starter_file.TEMPLATES.joinpath(f"{kind}.yaml").read_text()
    above = text[: text.index("\nusers:") + 1].rpartition("\n\n")[2]
    assert above.startswith("# ")
    path = yaml(f"\n{above}users: shared\n")
    rest = path.read_text().partition(above)[0].rstrip()
    assert script.post("/admin/tokens/enable").json() == {"is_on": True}
    after = path.read_text()
    assert above not in after
    assert after.startswith(rest)
    assert "\n\n\n" not in after


def test_other_comments_about_users_stay(script, yaml):
    (comment,) = [
        line
        for line in starter_file.comments_above("users")
        if "share one conv" in line
    ]
    text = f"\n# We are three.\n{comment}users: shared\n"
    path = yaml(text)
    script.post("/admin/tokens/enable")
    assert f"\n# We are three.\n{comment}" in path.read_text()


def test_other_authentication_scheme_is_not_replaced(browser, script, yaml):
    path = yaml("auth: {proxy: {basic: [{username: cy, password: calls-it-all}]}}\n")
    before = path.read_text()
    page = browser.get("/admin/tokens").text
    assert "Tokens are not required yet" in page
    assert "tokens/enable" not in page
    response = script.post("/admin/tokens/enable")
    assert response.status_code == 422
    assert "exactly one scheme" in response.json()["error"]["message"]
    assert path.read_text() == before


def test_enabling_tokens_twice_writes_nothing(browser, yaml):
    path = yaml("auth: {proxy: {tokens: {}}}\n")
    before = path.read_text()
    page = browser.submit("/admin/tokens/enable", {}, form_page="/admin/tokens")
    assert "No changes" in page.text
    assert path.read_text() == before


def test_section_alone_is_refused_with_link_to_the_whole_file(browser, yaml):
    yaml("users: shared\n")
    fields = {"_method": "PUT", "yaml": "proxy: {tokens: {}}\n"}
    page = browser.submit("/admin/auth", fields)
    assert page.status_code == 422
    assert "remove &#x27;users&#x27;" in page.text
    assert 'href="/admin/config/edit" target="_blank"' in page.text


def test_viewers_cannot_enable_tokens(viewer):
    page = viewer.get("/admin/tokens", headers={"Accept": "text/html"}).text
    assert "Tokens are not required yet" in page
    assert "tokens/enable" not in page
    assert viewer.post("/admin/tokens/enable").status_code == 403
