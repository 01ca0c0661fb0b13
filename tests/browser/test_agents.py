"""An agent is made, changed, disabled and reset, and clients see it at once."""

import openai
import pytest

from tests.browser.theatre import SAID, Theatre
from tests.browser.window import Window
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


def preamble_of_last(stage: Theatre) -> str:
    """Return the instructions of the last request for a reply."""
    asked = [
        body["messages"][0]["content"]
        for body in stage.fake.bodies
        # A fact extracted from it later quotes it.
        if body["messages"][-1]["content"] == "Where do we sit?"
    ]
    return asked[-1]


def write(window: Window, yaml: str) -> None:
    """Put a text into the form, whatever makes an editor of it."""
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
    window: Window, stage: Theatre, client: openai.OpenAI
) -> None:
    page = window.open("/admin/agents")
    window.link("New agent").click()
    write(window, USHER)
    window.said("Agent 'usher' created")
    assert window.path == "/admin/agents/usher"

    window.link("Chat").click()
    page.get_by_label("Message").fill("Where do we sit?")
    page.keyboard.press("Enter")
    page.locator(".bubble.is-assistant", has_text=SAID).wait_for()
    page.locator("#tree").get_by_text("gpt-4o-mini").first.wait_for()

    assert ask(client, "usher") == SAID
    assert "You show people to their seats." in preamble_of_last(stage)


def test_agent_can_be_changed_disabled_and_reset(
    window: Window, stage: Theatre, client: openai.OpenAI
) -> None:
    page = window.open("/admin/agents/stagehand")
    label = page.locator("h1 .badge")
    assert label.inner_text() == "yaml"
    window.link("Edit").click()
    text = page.locator("textarea[name=yaml]").input_value()
    write(window, text.replace("Be brief", "Be briefer"))
    window.said("Agent 'stagehand' saved")
    assert label.inner_text() == "override"
    assert page.locator(".stack", has_text="Be briefer").count()
    ask(client, "stagehand")
    assert "Be briefer" in preamble_of_last(stage)

    window.button("Disable").click()
    window.said("Agent 'stagehand' disabled")
    assert label.inner_text() == "tombstoned"
    with pytest.raises(openai.NotFoundError):
        ask(client, "stagehand")

    window.button("Reset to YAML").click()
    window.said("Agent 'stagehand' reset to the file's value")
    assert label.inner_text() == "yaml"
    assert window.questions == ["Disable 'stagehand'?"]
    until(lambda: "stagehand" in [model.id for model in client.models.list()])
    ask(client, "stagehand")
    assert "Be brief" in preamble_of_last(stage)


def test_refused_form_keeps_the_typed_text(window: Window) -> None:
    page = window.open("/admin/agents/new")
    write(window, USHER.replace("usher", "porter").replace("openai", "nobody"))
    refused = page.locator(".notice[role=alert]")
    refused.wait_for()
    assert "nobody" in refused.inner_text()
    assert "name: porter" in page.locator("textarea[name=yaml]").input_value()
    window.expects(422)
