"""Roles, security headers, masked secrets and limits of all addresses."""

import re

import pytest
from django.urls import URLPattern

from access.authentication import accounts
from config.editing.secret_masks import MASK
from config.loading import constructor
from studio import urls
from tests.conftest import CONFIG

pytestmark = pytest.mark.database

SECRET = "sk-openai-q7Vd2mXw9Lr4TzK8bNf3HcYs"
SPOKEN = CONFIG.replace(f"api_key: {SECRET}", f"api_key: &key {SECRET}").replace(
    "agents:\n",
    f"""agents:
  - name: gossip
    # It was {SECRET} before.
    provider: openai
    model: gpt-test
    preamble: *key
""",
)
AS_YAML = {"Content-Type": "application/yaml"}
FACES = ("text/html", "application/json", "application/yaml")
NOBODY = {"uuid": "018f4e2c-0000-7000-8000-000000000000"}


def addresses() -> list[str]:
    """Return an address for each that there is."""
    found = [*urls.urlpatterns, *urls.entry_urls()]
    patterns = [str(each.pattern) for each in found if isinstance(each, URLPattern)]
    return [
        "/admin/" + re.sub(r"<(\w+):\w+>", lambda tag: NOBODY.get(tag[1], "x"), pattern)
        for pattern in patterns
    ]


ADDRESSES = addresses()


def test_responses_block_foreign_scripts_and_frames(browser, script):
    found = browser.get("/admin/tokens")
    missing = browser.get("/admin/nowhere")
    refusal_page = script.post("/admin/tokens", json={})
    table = browser.get("/admin/accounts")
    statuses = [each.status_code for each in (found, missing, refusal_page, table)]
    assert statuses == [200, 404, 400, 200]
    for response in (found, missing, refusal_page, table):
        (message,) = response.headers.get_list("Content-Security-Policy")
        rules = dict(rule.split(" ", 1) for rule in message.split("; "))
        assert rules["default-src"] == rules["frame-ancestors"] == "'none'"
        assert rules["script-src"] == "'self' 'unsafe-eval'"
        assert rules["form-action"] == rules["connect-src"] == "'self'"
        assert rules["base-uri"] == "'none'"
        assert response.headers["X-Frame-Options"] == "DENY"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    for page in (found, missing, table):
        scripts = re.findall(r"<script\b[^>]*>", page.text)
        assert scripts
        assert [tag for tag in scripts if "src=" not in tag and "json" not in tag] == []
        assert not re.search(r"<[^>]+\son(click|load|submit|error)=", page.text)


def test_viewers_cannot_change_any_address(viewer):
    assert len(ADDRESSES) > 50
    for address in ADDRESSES:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            refusal_page = viewer.request(method, address, json={})
            assert refusal_page.status_code == 403, (method, address)
            assert "role_needed" in refusal_page.text


def test_account_without_a_role_sees_no_address(viewer):
    accounts.get_or_create_user("vera").groups.clear()
    for address in ADDRESSES:
        for method in ("GET", "OPTIONS", "POST"):
            refusal_page = viewer.request(method, address, json={})
            assert refusal_page.status_code == 403, (method, address)
            assert "role_needed" in refusal_page.text


def test_secret_behind_a_yaml_alias_is_masked_in_entries(script, configure):
    configure(SPOKEN)
    for path in ("/admin/agents", "/admin/agents/gossip", "/admin/agents/gossip/edit"):
        for face in FACES:
            shown = script.get(path, headers={"Accept": face})
            assert shown.status_code == 200
            assert SECRET not in shown.text, (path, face)
    assert MASK in script.get("/admin/agents/gossip").json()["config"]["preamble"]


def test_masked_alias_is_not_saved(script, configure):
    configure(SPOKEN)
    shown = script.get("/admin/agents/gossip", headers={"Accept": "application/yaml"})
    refusal_page = script.put(
        "/admin/agents/gossip", content=shown.text, headers=AS_YAML
    )
    assert refusal_page.status_code == 422
    assert "mask" in refusal_page.json()["error"]["message"]
    assert script.get("/admin/agents/gossip").json()["label"] == "yaml"


def test_validation_problems_quote_no_secret(script, configure, tmp_path, settings):
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"
    settings.COULISSE_STATE_DIR.mkdir()
    configure(SPOKEN)
    shown = script.get("/admin/config").text
    # Its owner asks what a mask stands for, and the validator quotes it.
    asked = shown.replace("preamble: *key", "provider: *key").replace(
        "    provider: openai\n", "", 1
    )
    refusal_page = script.put(
        "/admin/config",
        content=asked,
        headers={**AS_YAML, "Accept": "application/json"},
    )
    assert refusal_page.status_code == 422
    assert "[redacted]" in refusal_page.json()["error"]["problems"][0]["message"]
    assert SECRET not in refusal_page.text
    judged = script.post("/admin/config/check", json={"yaml": asked})
    assert judged.json()["problems"]
    assert SECRET not in judged.text


def test_every_address_answers_browsers_and_scripts(script, browser):
    # The description is made of all the others, and has tests of its own.
    for address in set(ADDRESSES) - {"/admin/openapi.json"}:
        for asking in (script, browser.http):
            assert asking.get(address).status_code < 500, address


def test_browser_gets_data_for_resources_without_a_page(browser, configure):
    configure(f"{CONFIG}\nmcp: {{far: {{url: 'http://127.0.0.1:9/mcp'}}}}\n")
    shown = browser.get("/admin/mcp/far/tools")
    assert shown.status_code == 200
    assert "object: mcp.tools" in shown.text


@pytest.mark.parametrize("name", ["..", ".", "check", "runs", "a/edit", "a/b/scores"])
def test_name_that_would_hide_a_page_is_refused(script, name):
    body = {"name": name, "provider": "openai", "model": "gpt-test"}
    refusal_page = script.post("/admin/agents", json=body)
    assert refusal_page.status_code == 422
    assert (
        "is reserved for a page of the studio"
        in refusal_page.json()["error"]["message"]
    )


BOMB = "a: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
DEEP = "a: " + "[" * 5000 + "]" * 5000


@pytest.mark.parametrize("path", ["agents", "tokens", "providers", "settings/limits"])
@pytest.mark.parametrize("text", [BOMB, DEEP], ids=["bomb", "deep"])
def test_body_with_too_many_yaml_nodes_is_refused(script, monkeypatch, path, text):
    monkeypatch.setattr(constructor, "MAX_NODES", 1000)
    method = "PUT" if path.startswith("settings") else "POST"
    refusal_page = script.request(
        method, f"/admin/{path}", content=text, headers=AS_YAML
    )
    assert refusal_page.status_code in (400, 422)
    nested = '{"a":' * 50_000
    body = {"Content-Type": "application/json"}
    refusal_page = script.request(
        method, f"/admin/{path}", content=nested, headers=body
    )
    assert refusal_page.status_code == 400
