"""A window of the browser, which writes down whatever goes wrong in it."""

from typing import Any
from urllib.parse import urlsplit

from tests.browser import looking

PATIENCE_MS = 60_000
LEFT = "net::ERR_ABORTED"
"""What was still loading when the page was left."""


class Window:
    """One page, in a profile of its own."""

    def __init__(self, context: Any) -> None:
        self.context = context
        context.add_init_script(path=looking.SCRIPT)
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.harms: list[str] = []
        """What a reader of the console would see in red."""
        self.questions: list[str] = []
        """What was asked before something was done; the answer is yes."""
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.harms.append(f"script: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.on("response", self._answered)
        self.page.on("dialog", self._asked)

    def open(self, path: str) -> Any:
        """Go to a page; return it when its scripts have run."""
        self.page.goto(path)
        return self.page

    @property
    def path(self) -> str:
        """Where the window is."""
        return urlsplit(self.page.url).path

    def button(self, name: str) -> Any:
        """Return the page's one button of a name."""
        return self.page.locator("#studio").get_by_role("button", name=name, exact=True)

    def link(self, name: str) -> Any:
        """Return the page's first link of a name."""
        studio = self.page.locator("#studio")
        return studio.get_by_role("link", name=name, exact=True).first

    def said(self, text: str) -> Any:
        """Wait for a message of the shell, or another text on the page."""
        found = self.page.get_by_text(text).first
        found.wait_for()
        return found

    def expects(self, status: int) -> None:
        """Forget one answer of a status, which the test meant to get."""
        harm = next(harm for harm in self.harms if harm.startswith(f"{status} "))
        self.harms.remove(harm)

    def settle(self) -> None:
        """Wait until nothing moves on the page any more."""
        self.page.evaluate("document.fonts.ready.then(() => null)")
        if self.path == "/admin/live":
            self.page.locator("#live-state", has_text="live").wait_for()
        if self.page.locator("[data-yaml-editor]").count():
            self.page.locator(".ace_content").first.wait_for()

    def is_too_wide(self) -> bool:
        """Return whether the page scrolls sideways."""
        return bool(
            self.page.evaluate(
                "document.documentElement.scrollWidth > window.innerWidth"
            )
        )

    def _heard(self, message: Any) -> None:
        # The browser's own words about answers: those are written down themselves.
        if (
            message.type in ("error", "warning")
            and "Failed to load" not in message.text
        ):
            self.harms.append(f"console: {message.text}")

    def _failed(self, request: Any) -> None:
        if request.failure != LEFT:
            self.harms.append(f"failed: {request.url} {request.failure}")

    def _answered(self, response: Any) -> None:
        if response.status >= 400:
            self.harms.append(f"{response.status} {response.url}")

    def _asked(self, dialog: Any) -> None:
        self.questions.append(dialog.message)
        dialog.accept()
