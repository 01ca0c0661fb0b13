"""The pages of sections, entries and the whole file, and the check of drafts."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config import live
from config.editing.secret_masks import MASK
from config.loading import last_valid_copy, loader
from tests.studio.configuration.config_file.file_requests import (
    AS_YAML,
    WANTS_YAML,
)

pytestmark = pytest.mark.database


def test_settings_cards_summarize_sections(script, browser, yaml):
    cards = {card["key"]: card for card in script.get("/admin/settings").json()["data"]}
    assert cards["providers"]["summary"] == "2 providers: openai, anthropic"
    assert cards["telemetry"]["summary"] == "fmt (enabled)"
    assert cards["server"]["applies"] == "restart"
    assert cards["storage"]["url"] == "/admin/storage"
    assert cards["memory"]["url"] == "/admin/memory/settings"
    page = browser.get("/admin/settings").text
    for card in cards.values():
        if card["is_available"]:
            assert f'href="{card["url"]}"' in page
    for key in ("limits", "server", "telemetry"):
        assert browser.get(cards[key]["url"]).status_code == 200


def test_unset_section_shows_an_example(browser, yaml):
    page = browser.get("/admin/settings/limits").text
    assert "<details open>" in page
    assert "requests_per_minute: 60" in page
    assert "<details open>" not in browser.get("/admin/telemetry").text


def test_form_saves_a_section(browser, yaml, text):
    page = browser.submit(
        "/admin/telemetry",
        {
            "_method": "PUT",
            "version": loader.content_digest(text.encode()),
            "yaml": "fmt:\r\n  enabled: false # quiet\r\n",
        },
    )
    assert "Telemetry saved" in page.text
    assert "telemetry: # all of it\n  fmt:\n    enabled: false # quiet\nmcp" in (
        yaml.read_text()
    )


@pytest.mark.parametrize(
    ("section", "typed", "message"),
    [
        ("telemetry", "fmt: {enabled: false}", "Telemetry saved"),
        (
            "settings/server",
            "port: 8422",
            "Server saved; restart the server to apply it",
        ),
    ],
)
def test_form_says_when_the_change_applies(browser, yaml, section, typed, message):
    page = browser.submit(f"/admin/{section}", {"_method": "PUT", "yaml": typed})
    assert re.search(rf"{message}\s*<", page.text)


def test_refused_form_keeps_its_input_and_line_numbers(browser, yaml):
    typed = "# mine\nfmt:\n  enabled: perhaps\n"
    fields = {"_method": "PUT", "yaml": typed}
    page = browser.submit("/admin/telemetry", fields)
    assert page.status_code == 422
    assert typed in page.text
    assert 'data-line="3"' in page.text
    page = browser.submit("/admin/telemetry", {**fields, "version": "older"})
    assert page.status_code == 409
    assert typed in page.text


@pytest.mark.parametrize(
    ("body", "headers"),
    [("null", {}), ("null\n", AS_YAML)],
)
def test_empty_entry_is_removed(script, yaml, text, body, headers):
    kind = {"Content-Type": "application/json", **headers}
    response = script.put("/admin/mcp/web", content=body, headers=kind)
    assert (response.status_code, response.json()) == (200, {})
    assert "web:" not in yaml.read_text()
    assert "files:" in yaml.read_text()
    assert script.get("/admin/mcp/web").status_code == 404


def test_emptied_entry_redirects_to_the_list(browser, yaml, text):
    page = browser.submit("/admin/mcp/web", {"_method": "PUT", "yaml": ""})
    assert (page.status_code, page.url.path) == (200, "/admin/mcp")
    assert "&#x27;web&#x27; removed" in page.text
    assert "web:" not in yaml.read_text()


@pytest.mark.parametrize("location", ["telemetry", "mcp/web", "config/edit"])
def test_conflict_page_shows_the_current_version(browser, script, yaml, text, location):
    address = f"/admin/{location}"
    wants = {"/admin/config/edit": "/admin/config"}.get(address, address)
    current = script.get(wants, headers=WANTS_YAML).text
    typed = {"_method": "PUT", "yaml": f"{current.rstrip()}\n# mine\n"}
    old = loader.content_digest(text.encode())
    yaml.write_text(f"{text}# theirs\n")
    page = browser.submit(address, {**typed, "version": old})
    assert page.status_code == 409
    assert f'<a href="{address}" target="_blank">View the current version' in page.text
    assert '<span class="add">+# mine</span>' in page.text
    assert ("# theirs" in page.text) == (location == "config/edit")
    assert "env-secret" not in page.text
    now = loader.content_digest(yaml.read_bytes())
    assert f'name="version" value="{now}"' in page.text
    page = browser.submit(address, {**typed, "version": now})
    assert page.status_code == 200
    assert "# mine" in yaml.read_text()


def test_broken_file_keeps_the_form_input(browser, yaml, text):
    last_valid_copy.write_copy(text.encode())
    yaml.write_text("agents: {\n")
    typed = {"_method": "PUT", "yaml": "fmt: {}\n", "version": "older"}
    page = browser.submit("/admin/telemetry", typed)
    assert page.status_code == 409
    assert "It is unreadable. Your text is below." in page.text
    assert "fmt: {}\n</textarea>" in page.text


def test_forms_add_and_remove_entries(browser, yaml, text):
    version = loader.content_digest(text.encode())
    new = {"name": "more", "url": "http://127.0.0.1:8/mcp", "version": version}
    page = browser.submit("/admin/mcp", new)
    assert "&#x27;more&#x27; added" in page.text
    assert page.url.path == "/admin/mcp/more"
    other = {**new, "name": "another"}
    assert browser.submit("/admin/mcp", other).status_code == 409
    page = browser.submit("/admin/mcp/more", {"_method": "DELETE"})
    assert page.url.path == "/admin/mcp"
    assert yaml.read_text() == text


def test_refused_new_entry_keeps_its_input(browser, yaml, text):
    address = "http://127.0.0.1:8/mcp"
    page = browser.submit("/admin/mcp", {"name": "web", "url": address})
    assert page.status_code == 409
    form = page.text.partition("Add a server")[2].partition("</form>")[0]
    assert "&#x27;web&#x27; already exists under mcp:" in form
    assert 'value="web"' in form
    assert f'value="{address}"' in form
    assert loader.content_digest(text.encode()) in form
    page = browser.submit("/admin/providers", {"kind": "groq", "base_url": "x"})
    assert page.status_code == 422
    form = page.text.partition("Add a provider")[2].partition("</form>")[0]
    assert 'role="alert"' in form
    assert "<option selected>groq</option>" in form
    assert yaml.read_text() == text


def test_whole_file_can_be_edited(browser, script, yaml, text):
    current = script.get("/admin/config").text
    fields = {"_method": "PUT", "yaml": current.replace("# the end", "# the very end")}
    page = browser.submit("/admin/config/edit", fields)
    assert "coulisse.yaml saved" in page.text
    assert yaml.read_text() == text.replace("# the end", "# the very end")
    fields["yaml"] = current.replace("fmt:", "fnt:")
    page = browser.submit("/admin/config/edit", fields)
    line = text.splitlines().index("  fmt: {enabled: true}") + 1
    assert page.status_code == 422
    assert f'data-line="{line}"' in page.text


def test_unreadable_file_is_reported(browser, yaml, text):
    last_valid_copy.write_copy(text.encode())
    yaml.write_text("agents: {\n")
    page = browser.get("/admin/config/edit").text
    assert "The file is unreadable" in page
    assert "telemetry: # all of it" in page
    assert "sk-openai" not in page


def test_invalid_file_is_reported(browser, yaml, text):
    watcher = live.ConfigWatcher()
    yaml.write_text("prompt: x\n" + text)
    for _ in range(2):  # The first poll may see a partly written file.
        watcher.poll()
    for _ in range(2):  # The page shows it repeatedly.
        page = browser.get("/admin/config/edit").text
        assert "The file below is invalid" in page
        assert 'data-line="1"' in page
        assert "prompt: x" in page
    yaml.write_text(text)
    watcher.poll()
    assert "is invalid" not in browser.get("/admin/config/edit").text


def test_memory_is_a_page_for_browsers(browser, script, yaml):
    assert browser.get("/admin/memory").headers["location"] == "/admin/facts"
    assert script.get("/admin/memory").json() == {}
    assert "yaml-editor" in browser.get("/admin/memory/settings").text


def test_draft_is_checked_without_writing(script, yaml, text):
    def problems(**draft):
        found = script.post("/admin/config/check", json=draft).json()["problems"]
        return [(p["line"], p["message"]) for p in found]

    assert problems(yaml=script.get("/admin/config").text) == []
    ((line, says),) = problems(yaml="fmt:\n  enabled: 7", at="telemetry")
    assert line == 2
    assert "must be true or false" in says
    assert problems(yaml=f"api_key: {MASK}", at="providers/openai") == []
    assert problems(yaml="kind: openai\napi_key: k", at="providers/our~1own") == []
    ((line, says),) = problems(yaml="a: [", at="telemetry")
    assert line == 1
    assert yaml.read_text() == text


def test_schema_equals_that_of_the_command(script, yaml):
    schema = script.get("/admin/config/schema").json()
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert "studio" in schema["properties"]


def test_query_count_is_independent_of_file_length(browser, yaml, text):
    def query_count(path):
        with CaptureQueriesContext(connection) as queries:
            assert browser.get(path).status_code == 200
        return len(queries)

    paths = ["settings", "providers", "mcp", "config/edit", "mcp/web"]
    before = [query_count(f"/admin/{path}") for path in paths]
    more = "".join(
        f"  web{i}: {{url: 'http://127.0.0.1:9/{i}', oauth: false}}\n"
        for i in range(20)
    )
    yaml.write_text(text.replace("# the end\n", more))
    assert [query_count(f"/admin/{path}") for path in paths] == before
