"""A browser before the real server: Debian's Chromium, driven by Playwright."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import openai
import pytest

from testing.scripted_provider import FakeProvider
from tests.browser import theatre
from tests.browser.places import found
from tests.browser.theatre import Theatre
from tests.browser.window import Window
from tests.processes.conftest import Project, end

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PICTURES = "test_pictures.py"
FLAGS = ("--no-sandbox", "--disable-dev-shm-usage", "--font-render-hinting=none")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--screenshots",
        type=Path,
        metavar="DIR",
        help="where to put pictures of every page",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what takes pictures where nobody says whereto."""
    wanted = config.getoption("--screenshots", default=None)
    return True if collection_path.name == PICTURES and wanted is None else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if CHROMIUM is None:
        terminalreporter.write_line(
            "no Chromium: the studio's pages were not looked at (apt install chromium)"
        )


@pytest.fixture(scope="package")
def chromium() -> Iterator[object]:
    """The browser; where there is none, every test that wants it is skipped."""
    # It keeps an event loop running in this thread: no longer than these tests.
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
def stage(
    chromium: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Theatre]:
    """The theatre, served; there only where somebody can look."""
    project = Project(tmp_path_factory.mktemp("theatre"))
    with FakeProvider() as fake:
        fake.default = theatre.answer
        theatre.prepare(project, fake)
        process = project.serve()
        stage = Theatre(project, fake)
        try:
            yield stage
        finally:
            stage.http.close()
            end(process)
            project.clean()


@pytest.fixture(scope="module")
def names(stage: Theatre) -> dict[str, str]:
    """What stands for the names in addresses."""
    return found(stage)


@pytest.fixture
def opened(chromium, stage: Theatre) -> Iterator[Callable[..., Window]]:
    """Return a function that opens a window; each must come to no harm."""
    windows: list[Window] = []

    def opened(*, width: int = 1280, dark: bool = False) -> Window:
        context = chromium.new_context(
            base_url=stage.url,
            viewport={"width": width, "height": 800},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            locale="en-GB",
            timezone_id="UTC",
        )
        windows.append(Window(context))
        return windows[-1]

    yield opened
    for window in windows:
        window.context.close()
    assert [harm for window in windows for harm in window.harms] == []


@pytest.fixture
def window(opened: Callable[..., Window]) -> Window:
    """A window of a desktop's width."""
    return opened()


@pytest.fixture
def client(stage: Theatre) -> Iterator[openai.OpenAI]:
    """The official client, with a token of its own."""
    made = stage.post(
        "/admin/tokens", {"label": "browser tests", "principal": "visitor"}
    )
    with official(stage, made["secret"]) as client:
        yield client


@pytest.fixture
def cue(stage: Theatre) -> Iterator[Callable[[], None]]:
    """Return what lets the models go on that were told to wait for it."""
    stage.fake.hold()
    yield stage.fake.release
    stage.fake.release()


def official(stage: Theatre, secret: str) -> openai.OpenAI:
    """Return the official client of a token."""
    return openai.OpenAI(
        base_url=f"{stage.url}/v1",
        api_key=secret,
        max_retries=0,
        timeout=60,
        http_client=openai.DefaultHttpxClient(verify=False),
    )
