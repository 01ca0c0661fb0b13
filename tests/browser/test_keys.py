"""The studio without a mouse: each thing is reached, seen to be so, and kept."""

from collections.abc import Callable
from typing import Any

import openai

from tests.browser.test_agents import USHER
from tests.browser.theatre import CUE, SAID, Theatre, asked
from tests.browser.window import Window

MOST_STEPS = 120
HELD = """() => {
  const held = document.activeElement;
  const name = held.labels?.[0]?.innerText || held.ariaLabel || held.innerText || "";
  return name.trim().split("\\n")[0];
}"""
IS_SEEN = """() => {
  const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
  return outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
}"""
RENEWED = """([inside, expected]) => {
  const [old, fresh] = ["<a href='#b'>B</a>", inside].map((html) =>
    new DOMParser().parseFromString(`<div>${html}</div>`, "text/html").body.firstChild);
  document.getElementById("studio").append(old);
  old.querySelector("a").focus();
  studio.replaceElement(old, fresh);
  return document.activeElement.innerText === expected;
}"""
IN_EDITOR = "document.activeElement.closest('.yaml-frame') !== null"


def held(page: Any) -> str:
    """Return the name of what has the focus."""
    name: str = page.evaluate(HELD)
    return name


def reach(page: Any, name: str) -> None:
    """Go to what has a name, by the Tab key; it must be seen that one is there."""
    passed = []
    for _ in range(MOST_STEPS):
        page.keyboard.press("Tab")
        passed.append(held(page))
        if passed[-1] == name:
            assert page.evaluate(IS_SEEN), f"{name} does not show that it has the focus"
            return
    raise AssertionError(f"no {name} among {passed}")


def press(page: Any, name: str) -> None:
    """Go to a button or link, and press it."""
    reach(page, name)
    page.keyboard.press("Enter")


def opened(window: Window, path: str) -> Any:
    """Open a page, and pass its menu."""
    page = window.open(path)
    press(page, "Skip to content")
    return page


def test_agent_can_be_created_and_used_by_keyboard(
    window: Window, stage: Theatre
) -> None:
    page = opened(window, "/admin/agents")
    press(page, "New agent")
    page.locator(".ace_content").first.wait_for()
    while not page.evaluate(IN_EDITOR):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.className === 'ace_text-input'")
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(USHER.replace("usher", "cloakroom"))
    page.keyboard.press("Escape")
    press(page, "Save")
    window.said("Agent 'cloakroom' created")

    # After a deed keys go on with the page, not with the menu.
    page.wait_for_function("document.activeElement?.id === 'page-main'")
    page.keyboard.press("Tab")
    assert held(page) == "Chat"
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.id === 'message'")
    page.keyboard.type("Where do we sit?")
    page.keyboard.press("Enter")
    page.locator(".bubble.is-assistant", has_text=SAID).wait_for()
    press(page, "Open this turn")
    page.locator("h1", has_text="Turn ").wait_for()
    assert stage.get(window.path)["agent"] == "cloakroom"


def test_reply_does_not_move_the_focus(window: Window, cue: Callable[[], None]) -> None:
    page = window.open("/admin/playground")
    page.wait_for_function("document.activeElement.id === 'message'")
    page.keyboard.type(f"Stand by. {CUE}")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Stop", exact=True).wait_for()
    page.locator("select[name=agent]").focus()
    cue()
    page.locator(".bubble.is-assistant", has_text=SAID).wait_for()
    page.locator("#stop").wait_for(state="hidden")
    assert page.evaluate("document.activeElement.name") == "agent"


def test_token_can_be_created_and_copied_by_keyboard(window: Window) -> None:
    page = opened(window, "/admin/tokens")
    reach(page, "Label")
    page.keyboard.type("cloakroom till")
    reach(page, "User")
    page.keyboard.type("cloakroom")
    press(page, "Create token")
    secret = page.locator("#secret").inner_text()
    # Over plain HTTP there is no clipboard API.
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {})")
    press(page, "Skip to content")
    press(page, "Copy")
    page.wait_for_function("document.activeElement.textContent === 'Copied'")
    assert page.evaluate("getSelection().toString()") == secret


def test_user_can_be_erased_by_keyboard(window: Window, stage: Theatre) -> None:
    user = stage.get("/admin/users")["data"][-1]
    page = opened(window, f"/admin/users/{user['id']}")
    press(page, "Erase…")
    page.locator("table", has_text="Rows").wait_for()
    press(page, "Skip to content")
    press(page, "Erase permanently")
    window.said("rased")
    assert user["id"] not in [each["id"] for each in stage.get("/admin/users")["data"]]


def test_live_update_keeps_the_focus_on_the_task(
    window: Window, client: openai.OpenAI, cue: Callable[[], None]
) -> None:
    page = window.open("/admin/live")
    page.locator("#live-state", has_text="live").wait_for()
    task = asked(client, f"Come in. {CUE}")
    place = f"[data-id='{task}']"
    page.locator(f"[data-list=open] {place}").get_by_text("running").wait_for()
    page.locator(f"[data-list=open] {place} a").focus()
    cue()
    page.locator(f"[data-list=ended] {place}").wait_for()
    at = "document.activeElement.closest('[data-list=ended] [data-id]')?.dataset.id"
    page.wait_for_function(f"{at} === '{task}'")
    assert page.evaluate(at) == task


def test_replaced_content_keeps_the_focus(window: Window) -> None:
    page = window.open("/admin/agents")
    assert page.evaluate(RENEWED, ["<a href='#a'>A</a><a href='#b'>B!</a>", "B!"])
    assert page.evaluate(RENEWED, ["<p>It is over</p>", "It is over"])
