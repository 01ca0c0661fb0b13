"""The file in the studio: its sections, its entries and all of it, for all who ask."""

import json
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.audit import config_reloads
from access.models import AuditEntry
from config import live
from config.editing.secret_masks import MASK
from config.loading import last_valid_copy, loader
from tests.conftest import CONFIG
from tests.studio.conftest import Browser

pytestmark = pytest.mark.database

AS_YAML = {"Content-Type": "application/yaml"}
WANTS_YAML = {"Accept": "application/yaml"}
TEXT = (
    CONFIG.lstrip()
    + """
# What is kept of turns.
telemetry: # all of it
  # on stderr
  fmt: {enabled: true}
mcp:
  files:
    command: uvx
    args: [files]
    env: {TOKEN: env-secret}
  web: # remote
    url: http://127.0.0.1:9/mcp
    oauth: false
# the end
"""
)


@pytest.fixture
def yaml(configure, tmp_path, settings):
    """The file the running server has."""
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"
    settings.COULISSE_STATE_DIR.mkdir()
    configure(TEXT)
    return tmp_path / "coulisse.yaml"


@pytest.fixture
def text(yaml):
    return yaml.read_text()


def told(answer):
    return answer.json()["error"]


# Sections.


def test_section_is_returned_as_json_and_yaml(script, yaml):
    assert script.get("/admin/telemetry").json() == {"fmt": {"enabled": True}}
    written = script.get("/admin/telemetry", headers=WANTS_YAML)
    assert written.text == "# on stderr\nfmt: {enabled: true}"
    assert written.headers["ETag"]
    assert script.get("/admin/auth").json() == {}
    assert script.get("/admin/settings/sidecars").json() == []
    assert script.get("/admin/settings/users").json() == ""


def test_yaml_is_written_as_typed(script, yaml, text):
    answer = script.put(
        "/admin/telemetry", content="fmt:\n  enabled: false # quiet\n", headers=AS_YAML
    )
    assert answer.json() == {"fmt": {"enabled": False}}
    assert yaml.read_text() == text.replace(
        "  # on stderr\n  fmt: {enabled: true}\n",
        "  fmt:\n    enabled: false # quiet\n",
    )


def test_json_changes_only_what_differs(script, yaml, text):
    answer = script.put("/admin/telemetry", json={"fmt": {"enabled": False}})
    assert answer.status_code == 200
    assert yaml.read_text() == text.replace("{enabled: true}", "{enabled: false}")
    loader.load_file(yaml)


def test_missing_section_is_added(script, yaml, text):
    script.put("/admin/memory", content="user_state: false # no\n", headers=AS_YAML)
    assert yaml.read_text() == text + "\nmemory:\n  user_state: false # no\n"
    assert script.get("/admin/memory").json() == {"user_state": False}
    assert script.get("/admin/settings/memory").json() == {"user_state": False}


def test_invalid_section_is_refused_with_its_location(script, yaml, text):
    answer = script.put("/admin/telemetry", json={"fmt": {"enabled": "perhaps"}})
    assert answer.status_code == 422
    (problem,) = told(answer)["problems"]
    line = text.splitlines().index("  fmt: {enabled: true}") + 1
    assert problem["location"] == ["telemetry", "fmt", "enabled"]
    assert problem["line"] == line
    assert told(answer)["message"].endswith(problem["message"])
    assert yaml.read_text() == text


@pytest.mark.parametrize("body", [b"fmt: {", b"a: 1\n  b: 2", b"\xff\xfe", b"'"])
def test_malformed_yaml_is_refused(script, yaml, text, body):
    answer = script.put("/admin/telemetry", content=body, headers=AS_YAML)
    assert answer.status_code == 400
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
    answer = script.put(f"/admin/{path}", content=body, headers=headers)
    assert answer.status_code == 400
    assert yaml.read_text() == text
    script.put("/admin/telemetry", json={})
    assert script.get("/admin/telemetry").json() == {}


def test_file_changed_meanwhile_is_not_overwritten(script, yaml, text):
    shown = script.get("/admin/telemetry").headers["ETag"]
    yaml.write_text(text + "# by hand\n")
    for path, body in [
        ("/admin/telemetry", "{}"),
        ("/admin/config", text),
        ("/admin/mcp/web", "url: http://127.0.0.1:8/\noauth: false"),
    ]:
        headers = {**AS_YAML, "If-Match": shown}
        assert script.put(path, content=body, headers=headers).status_code == 409
    version = shown.strip('"')
    answer = script.delete(f"/admin/mcp/web?version={version}")
    assert answer.status_code == 409
    assert yaml.read_text() == text + "# by hand\n"


def test_unavailable_section_says_so(script, yaml):
    answer = script.get("/admin/storage")
    assert answer.status_code == 404
    assert "not available in this version" in told(answer)["message"]
    answer = script.put("/admin/storage", json={"backend": "s3"})
    assert answer.status_code == 422
    assert told(answer)["problems"][0]["code"] == "coulisse.E013"
    assert script.get("/admin/settings/nonsense").status_code == 404


# Secrets and commands.


def test_secrets_are_masked_in_every_format(script, yaml):
    browser = Browser(str(script.base_url))
    for path in [
        *("config", "config/edit", "providers", "providers/openai", "mcp"),
        *("mcp/files", "settings", "settings/providers", "settings/mcp"),
    ]:
        for answer in (
            script.get(f"/admin/{path}"),
            script.get(f"/admin/{path}", headers=WANTS_YAML),
            browser.get(f"/admin/{path}"),
        ):
            assert answer.status_code == 200, path
            for secret in ("sk-openai", "sk-anthropic", "env-secret"):
                assert secret not in answer.text, path
    browser.http.close()


def test_masked_file_can_be_sent_back(script, yaml, text):
    shown = script.get("/admin/config")
    assert shown.headers["Content-Type"].startswith("application/yaml")
    assert shown.text == text.replace(
        "sk-openai-q7Vd2mXw9Lr4TzK8bNf3HcYs", MASK
    ).replace("sk-anthropic-9Rk3ZpQ8wXv5LmT2dHs7YgCb", MASK).replace("env-secret", MASK)
    sent = script.put("/admin/config", content=shown.text.encode(), headers=AS_YAML)
    assert sent.status_code == 200
    data = script.get("/admin/config", headers={"Accept": "application/json"}).json()
    assert script.put("/admin/config", json=data).status_code == 200
    for path in ("providers", "mcp", "providers/openai", "mcp/files"):
        body = script.get(f"/admin/{path}").json()
        assert script.put(f"/admin/{path}", json=body).status_code == 200
    assert yaml.read_text() == text


def test_mask_without_a_secret_is_refused(script, yaml, text):
    answer = script.put(
        "/admin/providers/openai",
        content=f"api_key: {MASK}\nheaders: {{X: {MASK}}}\n".encode(),
        headers=AS_YAML,
    )
    assert answer.status_code == 422
    assert "providers.openai.headers.X" in told(answer)["message"]
    assert yaml.read_text() == text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("mcp/files", {"command": "sh", "args": ["-c", "evil"]}),
        ("mcp/files", {"command": "uvx", "args": ["files"], "env": {"A": "b"}}),
        ("mcp", {"files": {"command": "sh"}}),
        ("settings/sidecars", [{"name": "s", "command": "sh"}]),
        ("settings/studio", {"allow_commands": True}),
    ],
)
def test_commands_cannot_be_added_by_default(script, yaml, text, path, body):
    answer = script.put(f"/admin/{path}", json=body)
    assert answer.status_code == 403
    assert "studio: {allow_commands: true}" in told(answer)["message"]
    assert yaml.read_text() == text


@pytest.mark.parametrize(
    "more",
    [
        "studio: {allow_commands: true}\n",
        "sidecars: [{name: s, command: sh}]\n",
    ],
)
def test_commands_cannot_be_added_in_the_whole_file(script, yaml, text, more):
    body = f"{text}{more}".encode()
    answer = script.put("/admin/config", content=body, headers=AS_YAML)
    assert answer.status_code == 403
    assert "changed only in the file" in " ".join(answer.text.split())
    assert yaml.read_text() == text


def test_mcp_command_can_be_added_when_allowed(script, yaml, text):
    new = {"name": "more", "command": "uvx"}
    assert script.post("/admin/mcp", json=new).status_code == 403
    yaml.write_text(text + "studio: {allow_commands: true}\n")
    assert script.post("/admin/mcp", json=new).status_code == 201
    assert script.get("/admin/mcp/more").json() == {"command": "uvx"}


# Entries.


def test_provider_can_be_added_and_removed(script, yaml, text):
    new = {"kind": "groq", "api_key": "gsk-new-secret"}
    answer = script.post("/admin/providers", json=new)
    assert answer.status_code == 201
    assert answer.headers["Location"] == "/admin/providers/groq"
    assert answer.json() == {"api_key": MASK}
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
    made = script.post("/admin/providers", json={"name": name, "kind": "local"})
    assert made.status_code == 201
    place = made.headers["Location"]
    assert script.get(place).json() == {"kind": "local"}
    assert browser.get(place).status_code == 200
    assert f'href="{place}"' in browser.get("/admin/providers").text
    assert script.delete(place).status_code == 200
    assert yaml.read_text() == text


@pytest.mark.parametrize("name", ["new", ".", "..", "a\nb", "\r\nX: y"])
def test_unreachable_name_is_refused(script, yaml, text, name):
    made = script.post("/admin/providers", json={"name": name, "kind": "local"})
    assert made.status_code in (400, 422)
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
    answer = script.delete("/admin/providers/openai")
    assert answer.status_code == 422
    assert "agent 'assistant' uses provider 'openai'" in told(answer)["message"]
    assert yaml.read_text() == text


# Who, and what is known of it.


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
    told = AuditEntry.objects.filter(details__digest=taken.digest)
    assert [entry.action for entry in told] == [config_reloads.WRITE_ACTION]


# Pages.


def test_settings_cards_summarize_sections(script, browser, yaml):
    cards = {card["key"]: card for card in script.get("/admin/settings").json()["data"]}
    assert cards["providers"]["summary"] == "2 providers: openai, anthropic"
    assert cards["telemetry"]["summary"] == "fmt (enabled)"
    assert cards["server"]["applies"] == "restart"
    assert cards["storage"]["is_available"] is False
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
    ("section", "typed", "said"),
    [
        ("telemetry", "fmt: {enabled: false}", "Telemetry saved"),
        (
            "settings/server",
            "port: 8422",
            "Server saved; restart the server to apply it",
        ),
    ],
)
def test_form_says_when_the_change_applies(browser, yaml, section, typed, said):
    page = browser.submit(f"/admin/{section}", {"_method": "PUT", "yaml": typed})
    assert re.search(rf"{said}\s*<", page.text)


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
    answer = script.put("/admin/mcp/web", content=body, headers=kind)
    assert (answer.status_code, answer.json()) == (200, {})
    assert "web:" not in yaml.read_text()
    assert "files:" in yaml.read_text()
    assert script.get("/admin/mcp/web").status_code == 404


def test_emptied_entry_redirects_to_the_list(browser, yaml, text):
    page = browser.submit("/admin/mcp/web", {"_method": "PUT", "yaml": ""})
    assert (page.status_code, page.url.path) == (200, "/admin/mcp")
    assert "&#x27;web&#x27; removed" in page.text
    assert "web:" not in yaml.read_text()


@pytest.mark.parametrize("where", ["telemetry", "mcp/web", "config/edit"])
def test_conflict_page_shows_the_current_version(browser, script, yaml, text, where):
    address = f"/admin/{where}"
    wants = {"/admin/config/edit": "/admin/config"}.get(address, address)
    shown = script.get(wants, headers=WANTS_YAML).text
    typed = {"_method": "PUT", "yaml": f"{shown.rstrip()}\n# mine\n"}
    old = loader.content_digest(text.encode())
    yaml.write_text(f"{text}# theirs\n")
    page = browser.submit(address, {**typed, "version": old})
    assert page.status_code == 409
    assert f'<a href="{address}" target="_blank">View the current version' in page.text
    assert '<span class="add">+# mine</span>' in page.text
    assert ("# theirs" in page.text) == (where == "config/edit")
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
    shown = script.get("/admin/config").text
    fields = {"_method": "PUT", "yaml": shown.replace("# the end", "# the very end")}
    page = browser.submit("/admin/config/edit", fields)
    assert "coulisse.yaml saved" in page.text
    assert yaml.read_text() == text.replace("# the end", "# the very end")
    fields["yaml"] = shown.replace("fmt:", "fnt:")
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
    for _ in range(2):  # When it is first seen it may be half written.
        watcher.poll()
    for _ in range(2):  # However often it is looked at.
        page = browser.get("/admin/config/edit").text
        assert "The file below is invalid" in page
        assert 'data-line="1"' in page
        assert "prompt: x" in page
    yaml.write_text(text)
    watcher.poll()
    assert "is invalid" not in browser.get("/admin/config/edit").text


def test_memory_is_a_page_for_browsers(browser, script, yaml):
    assert "<h1>Memory" in browser.get("/admin/memory").text
    assert script.get("/admin/memory").json() == {}
    assert "yaml-editor" in browser.get("/admin/memory/settings").text


# While it is typed.


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
    def asked(path):
        with CaptureQueriesContext(connection) as queries:
            assert browser.get(path).status_code == 200
        return len(queries)

    paths = ["settings", "providers", "mcp", "config/edit", "mcp/web"]
    before = [asked(f"/admin/{path}") for path in paths]
    more = "".join(
        f"  web{i}: {{url: 'http://127.0.0.1:9/{i}', oauth: false}}\n"
        for i in range(20)
    )
    yaml.write_text(text.replace("# the end\n", more))
    assert [asked(f"/admin/{path}") for path in paths] == before
