"""The YAML editor completes keys and values by the schema, and indents new lines."""

from typing import Any

import pytest

from tests.browser.harness.browser_window import BrowserWindow

CASES = [
    ("", "|", {"agents", "providers", "studio"}, set()),
    ("", "agents: []\nprov|", {"providers"}, {"agents"}),
    ("", "agents:\n  - |", {"name", "model"}, {"agents"}),
    ("", "agents:\n  - name: a\n    |", {"model", "temperature"}, {"name", "agents"}),
    ("", "agents:\n- name: a\n  |", {"model"}, {"name", "agents"}),
    ("", "agents:\n  - name: a\n    |\n    model: m", {"provider"}, {"name", "model"}),
    ("", "agents:\n  - name: a\n  - |\nusers: shared", {"name"}, {"agents"}),
    ("", "agents:\n  - name: a\n    fallbacks:\n      - |", {"provider"}, {"name"}),
    ("", "agents:\n  - name: a\n    memory:\n      user_state: |", {"true"}, set()),
    ("", "agents:\n  - name: a\n    memory: true\nlimits:\n  - |", {"per"}, {"model"}),
    ("", "limits:\n  - per: |", {"principal", "token", "agent"}, set()),
    ("", "mcp:\n  # one\n  a:\n    transport: |", {"http", "sse", "stdio"}, set()),
    ("", "providers:\n  openai:\n    |", {"api_key", "retries"}, {"openai"}),
    ("", "providers:\n  openai:\n    api_key: x\n  |", set(), {"api_key", "retries"}),
    ("", "telemetry:\n  fmt:\n    |", {"enabled"}, {"fmt", "sqlite"}),
    ("", "telemetry: # t\n  fmt: {}\n  |", {"sqlite"}, {"fmt", "enabled"}),
    ("", "telemetry:\n  fmt:\n    enabled: |", {"true", "false"}, set()),
    ("", "memory:\n  user_state:\n    recall_k: 3\n    |", {"fusion"}, {"recall_k"}),
    ("", "users: |", {"per-request", "shared"}, set()),
    ("", "agents: [] # tem|", set(), {"temperature", "providers"}),
    ("", "vars:\n  rules: |\n    Note: x\nagents:\n  - |", {"name"}, {"vars"}),
    ("providers/openai", "|", {"api_key"}, {"providers"}),
    ("telemetry", "fmt:\n  |", {"enabled"}, {"sqlite"}),
    ("agents/0", "name: a\n|", {"model"}, {"name"}),
    ("agents/0", "name: a\nreasoning_effort: |", {"low", "high"}, set()),
]
BLOCK_SCALAR = "agents:\n  - name: a\n    preamble: >\n      Say: x\n      mod@"
INSERT_MATCH = """() => {
  const { editor } = document.querySelector("[data-yaml-editor]");
  editor.execCommand("insertstring", "na");
  editor.completer.insertMatch();
  return editor.getValue().split("\\n").at(-1).trim();
}"""
NEXT_LINES = {
    "": "",
    "name: a": "",
    "agents:": "  ",
    "agents: # all": "  ",
    "agents: &all": "  ",
    "agents: [": "  ",
    "  - name: a": "    ",
    "  - memory:": "      ",
    "  - one": "  ",
    "  - {name: a}": "  ",
    "  - http://x": "  ",
    "  # - one": "  ",
    "preamble: |": "  ",
    "preamble: >- # folded": "  ",
    "preamble: |\n  Dear Ada:": "  ",
    "preamble: |\n  - one": "  ",
    "preamble: a | b": "",
    "a: http://x": "",
    "# note:": "",
    "'a: b':": "  ",
}
"""Indentation of the line that Enter adds after a text."""
IS_YAML = """() => {
  const editor = document.querySelector("[data-yaml-editor]")?.editor;
  return editor?.session.getMode().$id === "ace/mode/yaml";
}"""
SET_TEXT = """(text) => {
  document.querySelector("[data-yaml-editor]").editor.setValue(text, 1);
}"""
TEXT = """() => document.querySelector("[data-yaml-editor]").editor.getValue()"""
LAST_LINE = f"() => ({TEXT})().split('\\n').at(-1)"
EXPECTED_TEXT = """\
telemetry:
  fmt:
    enabled: true
agents:
  - name: a
    judges:
      - one
      - two
    preamble: |
      Be brief."""
COMPLETIONS = """([schema, path, text]) => {
  const before = text.slice(0, text.indexOf("@")).split("\\n");
  const steps = path === "" ? [] : path.split("/");
  const keys = steps.map((step) => (/^\\d+$/.test(step) ? +step : step));
  return window.studioYaml.completions(
    schema, keys, text.replace("@", "").split("\\n"),
    before.length - 1, before.at(-1).length,
  ).map((it) => it.caption);
}"""


@pytest.fixture
def completions(window: BrowserWindow):
    """Return the completions at `@` in a text; the path is of the edited section."""
    page = window.open("/admin/config/edit")
    page.wait_for_function("window.studioYaml !== undefined")
    schema = page.evaluate("() => window.studio.call('/admin/config/schema')")
    return lambda path, text: set(page.evaluate(COMPLETIONS, [schema, path, text]))


def set_text(page: Any, text: str) -> None:
    """Replace the editor's text; the cursor is at its end."""
    # Completion starts with the YAML mode.
    page.wait_for_function(IS_YAML)
    page.locator(".ace_content").click()
    page.evaluate(SET_TEXT, text)


def test_completion_offers_only_valid_keys(completions):
    failures = {}
    for path, text, expected, unexpected in CASES:
        offered = completions(path, "@".join(text.rsplit("|", 1)))
        if not expected <= offered or unexpected & offered:
            failures[path, text] = (expected - offered, unexpected & offered)
    assert failures == {}
    assert completions("", BLOCK_SCALAR) == set()


def test_completion_opens_while_typing(window: BrowserWindow) -> None:
    page = window.open("/admin/telemetry")
    # A typed line break might accept an offer for the word before it.
    set_text(page, "sqlite: {}\nfmt:\n  ")
    page.keyboard.type("ena")
    page.locator(".ace_autocomplete .ace_line", has_text="enabled").first.wait_for()
    page.keyboard.press("Enter")
    page.locator(".ace_content", has_text="enabled:").wait_for()
    page.keyboard.type("perhaps")
    problem = page.locator(".yaml-problems li", has_text="must be true or false")
    problem.wait_for()
    assert problem.count() == 1


def test_completion_opens_once_the_schema_has_loaded(window: BrowserWindow) -> None:
    routes: list[Any] = []
    window.page.route("**/admin/config/schema", lambda route: routes.append(route))
    page = window.open("/admin/telemetry")
    set_text(page, "sqlite:\n  ")
    page.keyboard.type("ena")
    (schema,) = routes
    option = page.locator(".ace_autocomplete .ace_line", has_text="enabled").first
    assert not option.is_visible()
    schema.continue_()
    option.wait_for()


def test_completion_inserts_the_chosen_entry_while_typing(
    window: BrowserWindow,
) -> None:
    page = window.open("/admin/telemetry")
    set_text(page, "sqlite:\n  ")
    page.keyboard.type("e")
    page.locator(".ace_autocomplete .ace_line", has_text="enabled").first.wait_for()
    assert page.evaluate(INSERT_MATCH) == "enabled:"


def test_unsaved_text_asks_before_leaving_the_page(window: BrowserWindow) -> None:
    page = window.open("/admin/telemetry")
    page.locator(".ace_content").click()
    page.keyboard.type("# mine")
    kinds: list[str] = []
    page.on("dialog", lambda dialog: kinds.append(dialog.type))
    window.open("/admin/settings")
    assert kinds == ["beforeunload"]
    window.open("/admin/telemetry")
    window.open("/admin/settings")
    assert kinds == ["beforeunload"]


def test_new_line_is_indented_for_yaml(window: BrowserWindow) -> None:
    page = window.open("/admin/agents/new")
    set_text(page, "")
    indentations = {}
    for text in NEXT_LINES:
        page.evaluate(SET_TEXT, text)
        page.keyboard.press("Enter")
        indentations[text] = page.evaluate(LAST_LINE)
    assert indentations == NEXT_LINES


def test_yaml_entries_need_no_typed_indentation(window: BrowserWindow) -> None:
    page = window.open("/admin/config/edit")
    set_text(page, "")
    for line in ("telemetry:", "fmt:", "enabled: true"):
        page.keyboard.type(line)
        page.keyboard.press("Enter")
    for _ in range(2):
        page.keyboard.press("Backspace")
    for line in ("agents:", "- name: a", "judges:", "- one", "- two"):
        page.keyboard.type(line)
        page.keyboard.press("Enter")
    page.keyboard.press("Backspace")
    page.keyboard.type("preamble: |")
    page.keyboard.press("Enter")
    page.keyboard.type("Be brief.")
    assert page.evaluate(TEXT) == EXPECTED_TEXT
