"""Providers and MCP servers: added, changed and removed by scripts."""

import html
import re

import pytest

from config.editing.secret_masks import MASK
from tests.studio.configuration.config_file.file_requests import (
    AS_YAML,
    error_of,
)

pytestmark = pytest.mark.database


def test_provider_can_be_added_and_removed(script, yaml, text):
    new = {"kind": "groq", "api_key": "gsk-new-secret"}
    response = script.post("/admin/providers", json=new)
    assert response.status_code == 201
    assert response.headers["Location"] == "/admin/providers/groq"
    assert response.json() == {"api_key": MASK}
    added = "\n\n  groq:\n    api_key: gsk-new-secret"
    assert f"{added}\n" in yaml.read_text() or f"{added[1:]}\n" in yaml.read_text()
    assert script.post("/admin/providers", json=new).status_code == 409
    assert script.put(
        "/admin/providers/groq",
        content="api_key: ${HOME} # from there",
        headers=AS_YAML,
    ).json() == {"api_key": "${HOME}"}
    assert script.delete("/admin/providers/groq").json() == {
        "name": "groq",
        "deleted": True,
    }
    assert yaml.read_text() == text
    for method in ("get", "delete"):
        assert getattr(script, method)("/admin/providers/groq").status_code == 404
    assert script.put("/admin/providers/groq", json={}).status_code == 404


@pytest.mark.parametrize("name", ["a/b", "a b?", "😀", "<b>", "a" * 2000])
def test_provider_names_are_url_encoded(script, browser, yaml, text, name):
    created = script.post("/admin/providers", json={"name": name, "kind": "local"})
    assert created.status_code == 201
    place = created.headers["Location"]
    assert script.get(place).json() == {"kind": "local"}
    assert browser.get(place).status_code == 200
    assert f'href="{place}"' in browser.get("/admin/providers").text
    assert script.delete(place).status_code == 200
    assert yaml.read_text() == text


@pytest.mark.parametrize("name", ["new", ".", "..", "a\nb", "\r\nX: y"])
def test_unreachable_name_is_refused(script, yaml, text, name):
    created = script.post("/admin/providers", json={"name": name, "kind": "local"})
    assert created.status_code in (400, 422)
    assert yaml.read_text() == text


def test_mcp_server_is_added_as_typed(script, yaml, text):
    body = (
        "name: more\n# remote, too\nurl: http://127.0.0.1:8/mcp # here\noauth: false\n"
    )
    assert script.post("/admin/mcp", content=body, headers=AS_YAML).status_code == 201
    assert yaml.read_text() == text.replace(
        "# the end\n",
        "  more:\n    # remote, too\n    url: http://127.0.0.1:8/mcp # here\n"
        "    oauth: false\n# the end\n",
    )


def test_entry_without_a_name_is_refused(script, yaml):
    assert script.post("/admin/mcp", json={"url": "http://x/"}).status_code == 422
    assert script.post("/admin/mcp", json=[1]).status_code == 400


def test_used_provider_is_not_removed(script, yaml, text):
    response = script.delete("/admin/providers/openai")
    assert response.status_code == 422
    assert "agent 'assistant' uses provider 'openai'" in error_of(response)["message"]
    assert yaml.read_text() == text


@pytest.mark.parametrize(
    ("path", "shown", "typed", "before"),
    [
        ("providers/openai", f"api_key: {MASK}", "api_key: sk-new", "api_key: .*"),
        ("mcp/web", "oauth: false", "oauth: true", "oauth: false"),
    ],
    ids=["provider", "mcp"],
)
def test_form_of_an_entry_saves_it(browser, yaml, text, path, shown, typed, before):
    page = browser.get(f"/admin/{path}").text
    form = page.partition('class="editor"')[2].partition("</form>")[0]
    field, current = re.search(
        r'<textarea[^>]* name="([^"]*)"[^>]*>\n(.*)</textarea>', form, re.DOTALL
    ).groups()
    version = re.search(r'name="version" value="([^"]*)"', form)[1]
    changed = html.unescape(current).replace(shown, typed)
    fields = {"_method": "PUT", "version": version, field: changed}
    assert "saved" in browser.submit(f"/admin/{path}", fields).text
    assert yaml.read_text() == re.sub(before, typed, text, count=1)


def test_removing_a_used_provider_lists_its_uses_on_its_page(browser, yaml, text):
    page = browser.submit("/admin/providers/openai", {"_method": "DELETE"})
    assert page.status_code == 422
    assert "<h1>openai" in page.text
    assert "provider &#x27;openai&#x27; is in use" in page.text
    assert "agent &#x27;assistant&#x27; uses provider &#x27;openai&#x27;<" in page.text
    assert f"api_key: {MASK}" in page.text
    assert yaml.read_text() == text


def test_viewers_are_not_told_to_add_what_they_cannot(viewer):
    page = viewer.get("/admin/mcp", headers={"Accept": "text/html"}).text
    assert "Operators can add them." in page
    assert "Add one below" not in page
