"""A token is created, used and revoked while a client uses it."""

import threading

import openai

from tests.browser.conftest import official
from tests.browser.theatre import SAID, Theatre
from tests.browser.window import Window


def test_token_can_be_created_used_and_revoked(window: Window, stage: Theatre) -> None:
    page = window.open("/admin/tokens")
    page.get_by_label("Label").fill("box office till")
    page.locator("[name=principal]").fill("till")
    window.button("Create token").click()
    secret = page.locator("#secret").inner_text()

    with official(stage, secret) as client:
        replies: list[str | None] = []
        first = threading.Event()

        def use() -> None:
            question = {"role": "user", "content": "Two for tonight?"}
            while True:
                reply = client.chat.completions.create(
                    model="translator", messages=[question]
                )
                replies.append(reply.choices[0].message.content)
                first.set()

        refused: list[Exception] = []

        def use_until_refused() -> None:
            try:
                use()
            except openai.APIError as exc:
                refused.append(exc)

        user = threading.Thread(target=use_until_refused)
        user.start()
        assert first.wait(60)

        window.link("Done").click()
        row = page.locator("tr", has_text="box office till")
        row.get_by_role("button", name="Revoke").click()
        window.said("Token 'box office till' revoked")
        page.wait_for_function("document.activeElement?.id === 'page-main'")
        assert not row.count()
        assert window.questions[0].startswith("Revoke 'box office till'?")
        user.join(60)

    assert isinstance(refused[0], openai.AuthenticationError)
    assert set(replies) == {SAID}
    assert secret not in page.content()


def test_secret_is_shown_once(window: Window) -> None:
    page = window.open("/admin/tokens")
    page.get_by_label("Label").fill("once")
    page.locator("[name=principal]").fill("till")
    window.button("Create token").click()
    secret = page.locator("#secret").inner_text()
    window.link("Done").click()
    window.link("once").click()
    page.locator("h1", has_text="once").wait_for()
    assert secret not in page.content()


def test_invalid_field_has_the_focus_and_an_error(window: Window) -> None:
    page = window.open("/admin/tokens")
    page.get_by_label("Label").fill("till")
    page.locator("[name=principal]").fill("till")
    page.locator("[name=budget]").select_option("total")
    window.button("Create token").press("Enter")
    field = page.locator("[name=limit_usd][aria-invalid]")
    field.wait_for()
    window.expects(400)
    assert field.evaluate("it => it === document.activeElement")
    told = page.locator(f"#{field.get_attribute('aria-describedby')}")
    assert "needs a limit in USD" in told.inner_text()
    field.fill("5")
    field.press("Enter")
    page.locator("#secret").wait_for()
