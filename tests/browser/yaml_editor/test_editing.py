"""The YAML editor: comments, errors at their lines, height, keyboard."""

from typing import Any

from tests.browser.harness.browser_window import BrowserWindow
from tests.browser.harness.demo_server import DemoServer

HEIGHTS = """() => {
  window.heights = [];
  const record = () => {
    const frame = document.querySelector(".yaml-frame:not([hidden])");
    if (frame) heights.push(frame.clientHeight);
    if (heights.length < 20) requestAnimationFrame(record);
  };
  requestAnimationFrame(record);
}"""
MIN_HEIGHT = 100
COMMENT = "Its price is unknown: see `prices:`."


def test_section_edit_keeps_comments(
    window: BrowserWindow, demo_server: DemoServer
) -> None:
    before = demo_server.project.config.read_text()
    page = window.open("/admin/settings")
    page.locator("#studio a[href='/admin/telemetry']").first.click()
    page.locator(".ace_content", has_text="keep_days").wait_for()
    page.locator(".ace_content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("\nfmt:\n  enabled: true # on stderr, too\n")
    window.button("Save").click()
    window.wait_for_text("Telemetry saved")
    after = demo_server.project.config.read_text()
    assert COMMENT in before
    assert COMMENT in after
    added = [line for line in after.splitlines() if line not in before.splitlines()]
    assert [line.strip() for line in added] == [
        "fmt:",
        "enabled: true # on stderr, too",
    ]


def test_error_is_marked_at_its_line(
    window: BrowserWindow, demo_server: DemoServer
) -> None:
    before = demo_server.project.config.read_text()
    page = window.open("/admin/config/edit")
    page.locator(".ace_content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("\nprompt: true\n")
    problem = page.locator(".yaml-problems li", has_text="prompt")
    problem.wait_for()
    last_line = before.rstrip().count("\n") + 1
    line = int(problem.get_by_role("button").inner_text().removeprefix("line "))
    assert line > last_line
    marker = page.locator(".ace_gutter-cell.ace_error")
    assert marker.inner_text().strip() == str(line)
    window.button("Save").click()
    page.locator(".notice[role=alert]", has_text="prompt").wait_for()
    window.ignore_status(422)
    assert demo_server.project.config.read_text() == before


def test_editor_has_its_height_at_once(window: BrowserWindow) -> None:
    page = window.page
    page.add_init_script(f"({HEIGHTS})()")
    assert min(heights(page, "/admin/config/edit")) > MIN_HEIGHT
    page.locator(".ace_content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("\nprompt: true\n")
    window.button("Save").click()
    page.locator(".notice[role=alert]", has_text="prompt").wait_for()
    window.ignore_status(422)
    assert min(heights(page)) > MIN_HEIGHT


def heights(page: Any, path: str | None = None) -> list[int]:
    """Return the editor's height in the first 20 frames of a page."""
    if path is not None:
        page.goto(path)
    page.wait_for_function("window.heights.length === 20")
    pixels: list[int] = page.evaluate("window.heights")
    return pixels


def test_section_editor_is_reached_by_keyboard(window: BrowserWindow) -> None:
    page = window.open("/admin/telemetry")
    page.locator(".ace_content").first.wait_for()
    for key in ("Tab", "Enter", "Tab", "Enter", "Control+End"):
        page.keyboard.press(key)
    page.keyboard.insert_text(" # mine")
    comment = page.locator(".ace_comment", has_text="# mine")
    comment.wait_for()
    assert comment.count() == 1


def test_change_across_sections_links_to_the_whole_file(window: BrowserWindow) -> None:
    page = window.open("/admin/settings/users")
    page.locator(".ace_content").first.click()
    page.keyboard.insert_text("shared")
    problem = page.locator(".yaml-problems li", has_text="remove 'users'")
    link = problem.get_by_role("link", name="Edit the whole file")
    assert link.get_attribute("href") == "/admin/config/edit"
