"""Agents: create, edit, disable and reset. Changes apply to clients at once."""

import openai
import pytest

from tests.browser.harness.browser_window import BrowserWindow
from tests.browser.harness.demo_server import REPLY, DemoServer
from tests.processes.conftest import until

USHER = """\
name: usher
provider: openai
model: gpt-4o-mini
preamble: You show people to their seats.
"""


def ask(client: openai.OpenAI, agent: str) -> str | None:
    question = {"role": "user", "content": "Where do we sit?"}
    reply = client.chat.completions.create(model=agent, messages=[question])
    return reply.choices[0].message.content


def last_preamble(demo_server: DemoServer) -> str:
    """Return the system message of the last question from `ask`."""
    preambles = [
        body["messages"][0]["content"]
        for body in demo_server.fake.bodies
        # Requests of the fact extraction quote the question.
        if body["messages"][-1]["content"] == "Where do we sit?"
    ]
    return preambles[-1]


def save_yaml(window: BrowserWindow, yaml: str) -> None:
    """Replace the text of the form, with or without the YAML editor, and save."""
    window.page.locator(".yaml-editor, textarea[name=yaml]").first.wait_for()
    window.page.evaluate(
        """(yaml) => {
          const editor = document.querySelector(".yaml-editor")?.editor;
          if (editor) editor.setValue(yaml, 1);
          else document.querySelector("textarea[name=yaml]").value = yaml;
        }""",
        yaml,
    )
    window.button("Save").click()


def test_agent_can_be_created_and_used(
    window: BrowserWindow, demo_server: DemoServer, client: openai.OpenAI
) -> None:
    page = window.open("/admin/agents")
    window.link("New agent").click()
    save_yaml(window, USHER)
    window.wait_for_text("Agent 'usher' created")
    assert window.path == "/admin/agents/usher"

    window.link("Chat").click()
    # The script sends the message.
    page.wait_for_load_state()
    page.get_by_label("Message").fill("Where do we sit?")
    page.keyboard.press("Enter")
    page.locator(".bubble.is-assistant", has_text=REPLY).wait_for()
    page.locator("#tree").get_by_text("gpt-4o-mini").first.wait_for()

    assert ask(client, "usher") == REPLY
    assert "You show people to their seats." in last_preamble(demo_server)


def test_agent_can_be_changed_disabled_and_reset(
    window: BrowserWindow, demo_server: DemoServer, client: openai.OpenAI
) -> None:
    page = window.open("/admin/agents/stagehand")
    label = page.locator("h1 .badge")
    assert label.inner_text() == "yaml"
    window.link("Edit").click()
    text = page.locator("textarea[name=yaml]").input_value()
    save_yaml(window, text.replace("Be brief", "Be briefer"))
    window.wait_for_text("Agent 'stagehand' saved")
    assert label.inner_text() == "override"
    assert page.locator(".stack", has_text="Be briefer").count()
    ask(client, "stagehand")
    assert "Be briefer" in last_preamble(demo_server)

    window.button("Disable").click()
    window.wait_for_text("Agent 'stagehand' disabled")
    assert label.inner_text() == "tombstoned"
    with pytest.raises(openai.NotFoundError):
        ask(client, "stagehand")

    window.button("Reset to YAML").click()
    window.wait_for_text("Agent 'stagehand' reset to the file's value")
    assert label.inner_text() == "yaml"
    assert window.confirmations == ["Disable 'stagehand'?"]
    until(lambda: "stagehand" in [model.id for model in client.models.list()])
    ask(client, "stagehand")
    assert "Be brief" in last_preamble(demo_server)


def test_invalid_form_keeps_the_typed_text(window: BrowserWindow) -> None:
    page = window.open("/admin/agents/new")
    save_yaml(window, USHER.replace("usher", "porter").replace("openai", "nobody"))
    error = page.locator(".notice[role=alert]")
    error.wait_for()
    assert "nobody" in error.inner_text()
    assert "name: porter" in page.locator("textarea[name=yaml]").input_value()
    window.ignore_status(422)
