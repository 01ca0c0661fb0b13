"""Fixtures: Chromium, driven by Playwright, and the server with the demo's data."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import openai
import pytest

from testing.scripted_provider import FakeProvider
from tests.browser.harness import studio_pages
from tests.browser.harness.browser_window import BrowserWindow
from tests.browser.harness.demo_server import (
    DemoServer,
    prepare_project,
    scripted_answer,
)
from tests.processes.conftest import Project, end

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SCREENSHOTS = "test_screenshots.py"
FLAGS = ("--no-sandbox", "--disable-dev-shm-usage", "--font-render-hinting=none")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--screenshots",
        type=Path,
        metavar="DIR",
        help="save screenshots of every page in this directory",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the screenshot tests without `--screenshots`."""
    directory = config.getoption("--screenshots", default=None)
    is_screenshots = collection_path.name == SCREENSHOTS
    return True if is_screenshots and directory is None else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if CHROMIUM is None:
        terminalreporter.write_line(
            "skipped the browser tests: Chromium not found (apt install chromium)"
        )


@pytest.fixture(scope="package")
def chromium() -> Iterator[object]:
    """Chromium. The tests are skipped if it cannot be started."""
    # Package scope: Playwright runs an event loop in this thread until it stops.
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright")
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    with playwright.sync_playwright() as driver:
        try:
            browser = driver.chromium.launch(
                executable_path=CHROMIUM, args=[*FLAGS], timeout=60_000
            )
        except playwright.Error as exc:
            pytest.skip(f"no Chromium: {str(exc).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def demo_server(
    chromium: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DemoServer]:
    """The running server. Depends on `chromium`, so that it is skipped without it."""
    project = Project(tmp_path_factory.mktemp("demo"))
    with FakeProvider() as fake:
        fake.default = scripted_answer
        prepare_project(project, fake)
        process = project.serve()
        server = DemoServer(project, fake)
        server.upload_files()
        try:
            yield server
        finally:
            server.http.close()
            end(process)
            project.clean()


@pytest.fixture(scope="module")
def path_parameters(demo_server: DemoServer) -> dict[str, str]:
    """Ids for the addresses of pages."""
    return studio_pages.path_parameters(demo_server)


@pytest.fixture
def open_window(
    chromium, demo_server: DemoServer
) -> Iterator[Callable[..., BrowserWindow]]:
    """Open windows, and check at the end that they recorded no errors."""
    windows: list[BrowserWindow] = []

    def open_window(*, width: int = 1280, dark: bool = False) -> BrowserWindow:
        context = chromium.new_context(
            base_url=demo_server.url,
            viewport={"width": width, "height": 800},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            locale="en-GB",
            timezone_id="UTC",
        )
        windows.append(BrowserWindow(context))
        return windows[-1]

    yield open_window
    for window in windows:
        window.context.close()
    assert [error for window in windows for error in window.errors] == []


@pytest.fixture
def window(open_window: Callable[..., BrowserWindow]) -> BrowserWindow:
    """A window of desktop width."""
    return open_window()


@pytest.fixture
def client(demo_server: DemoServer) -> Iterator[openai.OpenAI]:
    """The official OpenAI client with a new token."""
    token = demo_server.post(
        "/admin/tokens", {"label": "browser tests", "principal": "visitor"}
    )
    with demo_server.openai_client(token["secret"]) as client:
        yield client


@pytest.fixture
def release_model(demo_server: DemoServer) -> Iterator[Callable[[], None]]:
    """Hold replies to `HELD_PROMPT` until the test calls this function."""
    demo_server.fake.hold()
    yield demo_server.fake.release
    demo_server.fake.release()
