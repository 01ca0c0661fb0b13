"""The studio by keyboard: controls are reachable, show the focus, and keep it."""

from collections.abc import Callable
from typing import Any

import openai

from tests.browser.harness.browser_window import BrowserWindow
from tests.browser.harness.demo_server import (
    HELD_PROMPT,
    REPLY,
    DemoServer,
    create_task,
)
from tests.browser.studio.test_agents import USHER

MOST_TABS = 120
FOCUSED_NAME = """() => {
  const focused = document.activeElement;
  const name = focused.labels?.[0]?.innerText || focused.ariaLabel || focused.innerText;
  return (name || "").trim().split("\\n")[0];
}"""
HAS_FOCUS_RING = """() => {
  const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
  return outlineStyle !== "none" && parseFloat(outlineWidth) >= 1;
}"""
HAS_FOCUS_AFTER_REPLACING = """([html, expected]) => {
  const [oldElement, newElement] = ["<a href='#b'>B</a>", html].map((html) =>
    new DOMParser().parseFromString(`<div>${html}</div>`, "text/html").body.firstChild);
  document.getElementById("studio").append(oldElement);
  oldElement.querySelector("a").focus();
  studio.replaceElement(oldElement, newElement);
  return document.activeElement.innerText === expected;
}"""
IN_EDITOR = "document.activeElement.closest('.yaml-frame') !== null"


def focused_name(page: Any) -> str:
    """Return the label or text of the focused element."""
    name: str = page.evaluate(FOCUSED_NAME)
    return name


def tab_to(page: Any, name: str) -> None:
    """Press Tab until the element with this name has the focus, and shows it."""
    passed = []
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        passed.append(focused_name(page))
        if passed[-1] == name:
            assert page.evaluate(HAS_FOCUS_RING), f"{name} shows no focus ring"
            return
    raise AssertionError(f"{name} not reached: {passed}")


def press(page: Any, name: str) -> None:
    """Tab to a button or link, and press it."""
    tab_to(page, name)
    page.keyboard.press("Enter")


def open_content(window: BrowserWindow, path: str) -> Any:
    """Open a page, and skip its menu."""
    page = window.open(path)
    press(page, "Skip to content")
    return page


def test_agent_can_be_created_and_used_by_keyboard(
    window: BrowserWindow, demo_server: DemoServer
) -> None:
    page = open_content(window, "/admin/agents")
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
    window.wait_for_text("Agent 'cloakroom' created")

    # After an action the focus is in the page, not in the menu.
    page.wait_for_function("document.activeElement?.id === 'page-main'")
    page.keyboard.press("Tab")
    assert focused_name(page) == "Chat"
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.id === 'message'")
    page.keyboard.type("Where do we sit?")
    page.keyboard.press("Enter")
    page.locator(".bubble.is-assistant", has_text=REPLY).wait_for()
    press(page, "View turn")
    page.locator("h1", has_text="Turn ").wait_for()
    assert demo_server.get(window.path)["agent"] == "cloakroom"


def test_reply_does_not_move_the_focus(
    window: BrowserWindow, release_model: Callable[[], None]
) -> None:
    page = window.open("/admin/playground")
    page.wait_for_function("document.activeElement.id === 'message'")
    page.keyboard.type(f"Stand by. {HELD_PROMPT}")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Stop", exact=True).wait_for()
    page.locator("select[name=agent]").focus()
    release_model()
    page.locator(".bubble.is-assistant", has_text=REPLY).wait_for()
    page.locator("#stop").wait_for(state="hidden")
    assert page.evaluate("document.activeElement.name") == "agent"


def test_token_can_be_created_and_copied_by_keyboard(window: BrowserWindow) -> None:
    page = open_content(window, "/admin/tokens")
    tab_to(page, "Label")
    page.keyboard.type("cloakroom till")
    tab_to(page, "User")
    page.keyboard.type("cloakroom")
    press(page, "Create token")
    secret = page.locator("#secret").inner_text()
    # As over plain HTTP, where browsers have no clipboard API.
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {})")
    press(page, "Copy")
    page.wait_for_function("document.activeElement.textContent === 'Copied'")
    assert page.evaluate("getSelection().toString()") == secret


def test_user_can_be_erased_by_keyboard(
    window: BrowserWindow, demo_server: DemoServer
) -> None:
    user = demo_server.get("/admin/users")["data"][-1]
    page = open_content(window, f"/admin/users/{user['id']}")
    press(page, "Erase…")
    page.locator("table", has_text="Rows").wait_for()
    press(page, "Skip to content")
    press(page, "Erase permanently")
    window.wait_for_text("rased")
    assert user["id"] not in [
        row["id"] for row in demo_server.get("/admin/users")["data"]
    ]


def test_live_update_keeps_the_focus_on_the_task(
    window: BrowserWindow, client: openai.OpenAI, release_model: Callable[[], None]
) -> None:
    page = window.open("/admin/live")
    page.locator("#live-state", has_text="live").wait_for()
    task = create_task(client, f"Come in. {HELD_PROMPT}")
    item = f"[data-id='{task}']"
    page.locator(f"[data-list=open] {item}").get_by_text("running").wait_for()
    page.locator(f"[data-list=open] {item} a").focus()
    release_model()
    page.locator(f"[data-list=ended] {item}").wait_for()
    focused = (
        "document.activeElement.closest('[data-list=ended] [data-id]')?.dataset.id"
    )
    page.wait_for_function(f"{focused} === '{task}'")
    assert page.evaluate(focused) == task


def test_replaced_content_keeps_the_focus(window: BrowserWindow) -> None:
    page = window.open("/admin/agents")
    assert page.evaluate(
        HAS_FOCUS_AFTER_REPLACING, ["<a href='#a'>A</a><a href='#b'>B!</a>", "B!"]
    )
    assert page.evaluate(HAS_FOCUS_AFTER_REPLACING, ["<p>It is over</p>", "It is over"])
