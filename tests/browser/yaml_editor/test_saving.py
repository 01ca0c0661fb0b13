"""Saving a provider with the editor, and the page after a refusal."""

from tests.browser.harness.browser_window import BrowserWindow


def test_provider_can_be_saved_and_its_removal_is_refused(
    window: BrowserWindow,
) -> None:
    page = window.open("/admin/providers/openai")
    text = page.locator("textarea[name=yaml]").input_value()
    window.wait_until_rendered()
    page.evaluate(
        "(text) => document.querySelector('.yaml-editor').editor.setValue(text, 1)",
        f"{text}\n# kept",
    )
    window.button("Save").click()
    window.wait_for_text("'openai' saved")
    assert "# kept" in page.locator("textarea[name=yaml]").input_value()

    window.button("Remove").click()
    error = page.locator(".notice[role=alert]")
    error.wait_for()
    assert "provider 'openai' is in use" in error.inner_text()
    assert "# kept" in page.locator("textarea[name=yaml]").input_value()
    window.ignore_status(422)
