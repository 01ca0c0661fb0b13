"""Charts: drawn by day and night, within a phone, and readable without scripts."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.harness.browser_window import BrowserWindow
from tests.browser.harness.demo_server import DemoServer

PHONE_WIDTH = 390
PAINTED = """canvas => {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  return data.some((value, index) => index % 4 === 3 && value > 128);
}"""
DRAWN = "canvas => [Chart.getChart(canvas).data.labels.length, canvas.clientWidth]"


@pytest.mark.parametrize("width", [1280, PHONE_WIDTH], ids=["desktop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["day", "night"])
@pytest.mark.parametrize(
    ("path", "count"),
    [("/admin/", 6), ("/admin/spend?period=90d", 1), ("/admin/judges/quality", 1)],
    ids=["home", "spend", "judge"],
)
def test_charts_are_drawn_within_the_page(
    open_window: Callable[..., BrowserWindow],
    path: str,
    count: int,
    width: int,
    dark: bool,
) -> None:
    window = open_window(width=width, dark=dark)
    page = window.open(path)
    charts = page.locator("canvas.chart")
    assert page.locator(".chart-card").count() == count
    # The last day of the sample data may have no errors, and then no chart of them.
    assert charts.count() >= max(1, count - 1)
    for chart in charts.all():
        assert chart.evaluate(PAINTED)
        labels, drawn_width = chart.evaluate(DRAWN)
        assert labels > 20
        assert 200 < drawn_width < width
    assert not window.scrolls_sideways()


def test_a_tooltip_has_the_unit_and_all_series(window: BrowserWindow) -> None:
    page = window.open("/admin/spend?period=30d")
    lines: Any = page.locator("canvas.chart").evaluate(
        """canvas => {
          const chart = Chart.getChart(canvas);
          const index = chart.data.datasets[0].data.findIndex((value) => value > 0);
          chart.tooltip.setActiveElements([{ datasetIndex: 0, index }], { x: 0, y: 0 });
          chart.update();
          return chart.tooltip.body.flatMap((part) => part.lines);
        }"""
    )
    assert len(lines) == 1
    assert lines[0].startswith("Cost: $0.")


def test_figures_are_readable_without_scripts(
    chromium, demo_server: DemoServer
) -> None:
    context = chromium.new_context(base_url=demo_server.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/admin/spend?period=30d")
    assert not page.locator("canvas.chart").is_visible()
    page.get_by_text("Figures").click()
    assert "$" in page.locator(".chart-card td.number").first.inner_text()
    context.close()
