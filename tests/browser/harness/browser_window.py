"""A browser window that records the errors of its page."""

from typing import Any
from urllib.parse import urlsplit

from tests.browser.harness import layout_checks

TIMEOUT_MS = 60_000
ABORTED = "net::ERR_ABORTED"
"""The failure of a request that was pending when the page was left."""


class BrowserWindow:
    """One page in a browser context (a profile) of its own."""

    def __init__(self, context: Any) -> None:
        self.context = context
        context.add_init_script(path=layout_checks.SCRIPT)
        self.page = context.new_page()
        self.page.set_default_timeout(TIMEOUT_MS)
        self.errors: list[str] = []
        """Console errors, exceptions, failed requests, and responses from 400."""
        self.confirmations: list[str] = []
        """Texts of dialogs. Each one was accepted."""
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.errors.append(f"script: {error}"))
        self.page.on("requestfailed", self._on_request_failed)
        self.page.on("response", self._on_response)
        self.page.on("dialog", self._on_dialog)

    def open(self, path: str) -> Any:
        """Go to a path; return the page after its scripts have run."""
        self.page.goto(path)
        return self.page

    @property
    def path(self) -> str:
        """The path of the current page."""
        return urlsplit(self.page.url).path

    def button(self, name: str) -> Any:
        """Return the button with this name."""
        return self.page.locator("#studio").get_by_role("button", name=name, exact=True)

    def link(self, name: str) -> Any:
        """Return the first link with this name."""
        studio = self.page.locator("#studio")
        return studio.get_by_role("link", name=name, exact=True).first

    def wait_for_text(self, text: str) -> None:
        """Wait until the page shows a text, for example a success message."""
        self.page.get_by_text(text).first.wait_for()

    def ignore_status(self, status: int) -> None:
        """Remove one response with an expected error status from `errors`."""
        error = next(error for error in self.errors if error.startswith(f"{status} "))
        self.errors.remove(error)

    def wait_until_rendered(self) -> None:
        """Wait for fonts, the live connection and the YAML editor."""
        self.page.evaluate("document.fonts.ready.then(() => null)")
        if self.path == "/admin/live":
            self.page.locator("#live-state", has_text="live").wait_for()
        if self.page.locator("[data-yaml-editor]").count():
            self.page.locator(".ace_content").first.wait_for()

    def scrolls_sideways(self) -> bool:
        """Return whether the page is wider than the window."""
        return bool(
            self.page.evaluate(
                "document.documentElement.scrollWidth > window.innerWidth"
            )
        )

    def _on_console(self, message: Any) -> None:
        # `_on_response` records error statuses, which Chromium also logs.
        if (
            message.type in ("error", "warning")
            and "Failed to load" not in message.text
        ):
            self.errors.append(f"console: {message.text}")

    def _on_request_failed(self, request: Any) -> None:
        if request.failure != ABORTED:
            self.errors.append(f"failed: {request.url} {request.failure}")

    def _on_response(self, response: Any) -> None:
        if response.status >= 400:
            self.errors.append(f"{response.status} {response.url}")

    def _on_dialog(self, dialog: Any) -> None:
        self.confirmations.append(dialog.message)
        dialog.accept()
