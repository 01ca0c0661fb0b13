"""The file is edited in the browser: comments stay, errors are at their lines."""

from tests.browser.theatre import Theatre
from tests.browser.window import Window

COMMENT = "Nobody has said what it costs: see `prices:`."


def test_a_section_is_edited_and_comments_stay(window: Window, stage: Theatre) -> None:
    before = stage.project.config.read_text()
    page = window.open("/admin/settings")
    page.locator("#studio a[href='/admin/telemetry']").first.click()
    page.locator(".ace_content", has_text="keep_days").wait_for()
    page.locator(".ace_content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("\nfmt:\n  enabled: true # on stderr, too\n")
    window.button("Save").click()
    window.said("Saved")
    after = stage.project.config.read_text()
    assert COMMENT in before
    assert COMMENT in after
    added = [line for line in after.splitlines() if line not in before.splitlines()]
    assert [line.strip() for line in added] == [
        "fmt:",
        "enabled: true # on stderr, too",
    ]


def test_an_error_is_marked_at_its_line(window: Window, stage: Theatre) -> None:
    before = stage.project.config.read_text()
    page = window.open("/admin/config/edit")
    page.locator(".ace_content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("\nprompt: true\n")
    problem = page.locator(".yaml-problems li", has_text="prompt")
    problem.wait_for()
    number = before.rstrip().count("\n") + 1
    line = int(problem.get_by_role("button").inner_text().removeprefix("line "))
    assert line > number
    marked = page.locator(".ace_gutter-cell.ace_error")
    assert marked.inner_text().strip() == str(line)
    window.button("Save").click()
    page.locator(".notice[role=alert]", has_text="prompt").wait_for()
    window.expects(422)
    assert stage.project.config.read_text() == before
