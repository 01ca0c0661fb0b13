"""Tokens: create, use and revoke. Validation errors of the form."""

import threading

import openai

from tests.browser.harness.browser_window import BrowserWindow
from tests.browser.harness.demo_server import REPLY, DemoServer


def test_token_can_be_created_used_and_revoked(
    window: BrowserWindow, demo_server: DemoServer
) -> None:
    page = window.open("/admin/tokens")
    page.get_by_label("Label").fill("box office till")
    page.locator("[name=principal]").fill("till")
    window.button("Create token").click()
    secret = page.locator("#secret").inner_text()

    with demo_server.openai_client(secret) as client:
        replies: list[str | None] = []
        errors: list[Exception] = []
        has_reply = threading.Event()

        def ask_until_refused() -> None:
            question = {"role": "user", "content": "Two for tonight?"}
            try:
                while True:
                    reply = client.chat.completions.create(
                        model="translator", messages=[question]
                    )
                    replies.append(reply.choices[0].message.content)
                    has_reply.set()
            except openai.APIError as exc:
                errors.append(exc)

        thread = threading.Thread(target=ask_until_refused)
        thread.start()
        assert has_reply.wait(60)

        window.link("Done").click()
        row = page.locator("tr", has_text="box office till")
        row.get_by_role("button", name="Revoke").click()
        window.wait_for_text("Token 'box office till' revoked")
        page.wait_for_function("document.activeElement?.id === 'page-main'")
        assert not row.count()
        assert window.confirmations[0].startswith("Revoke 'box office till'?")
        thread.join(60)

    assert isinstance(errors[0], openai.AuthenticationError)
    assert set(replies) == {REPLY}
    assert secret not in page.content()


def test_secret_is_shown_once(window: BrowserWindow) -> None:
    page = window.open("/admin/tokens")
    page.get_by_label("Label").fill("once")
    page.locator("[name=principal]").fill("till")
    window.button("Create token").click()
    secret = page.locator("#secret").inner_text()
    window.link("Done").click()
    window.link("once").click()
    page.locator("h1", has_text="once").wait_for()
    assert secret not in page.content()


def test_invalid_field_has_the_focus_and_an_error(window: BrowserWindow) -> None:
    page = window.open("/admin/tokens")
    page.get_by_label("Label").fill("till")
    page.locator("[name=principal]").fill("till")
    page.locator("[name=budget]").select_option("total")
    window.button("Create token").press("Enter")
    field = page.locator("[name=limit_usd][aria-invalid]")
    field.wait_for()
    window.ignore_status(400)
    assert field.evaluate("it => it === document.activeElement")
    error = page.locator(f"#{field.get_attribute('aria-describedby')}")
    assert "needs a limit in USD" in error.inner_text()
    field.fill("5")
    field.press("Enter")
    page.locator("#secret").wait_for()
