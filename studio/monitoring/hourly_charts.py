"""The charts of the home page: a bar for each hour."""

from collections.abc import Sequence

from admin_base.templatetags.studio import count, usd
from studio.base import charts
from studio.base.charts import Chart, Series, Unit, build_chart
from telemetry.statistics.recent_activity import HourStats


def build_charts(hours: Sequence[HourStats], *, has_cost: bool) -> list[Chart]:
    """Return the charts of the last hours, in the order of the page's tiles."""
    labels = [f"{each.at:%H:%M}" for each in hours]

    def by_hour(title: str, *series: Series, unit: Unit = charts.COUNT) -> Chart:
        return build_chart(title, labels, series, axis="Hour (UTC)", unit=unit)

    failed = Series("Failed", [each.errors for each in hours], charts.BAD)
    costs = [(each.micro_usd, each.unpriced) for each in hours]
    return [
        by_hour("Turns", failed, Series("All turns", [each.turns for each in hours])),
        by_hour("Users", Series("Users", [each.users for each in hours])),
        by_hour(
            "Tokens",
            Series("Output", [each.output_tokens for each in hours], charts.DARK),
            Series("All tokens", [each.tokens for each in hours]),
            unit=charts.TOKENS,
        ),
        *([by_hour("Cost", cost_series(costs), unit=charts.USD)] if has_cost else []),
        by_hour("Errors", failed),
        by_hour(
            "Time",
            Series("Median", [each.p50_seconds for each in hours], charts.DARK),
            Series("p95", [each.p95_seconds for each in hours]),
            unit=charts.SECONDS,
        ),
    ]


def cost_series(costs: Sequence[tuple[int, int]]) -> Series:
    """Return a series of costs in micro-USD, each with the number of unpriced turns."""
    dollars = [micro_usd / 1_000_000 for micro_usd, _ in costs]
    return Series("Cost", dollars, texts=[_cost_text(*each) for each in costs])


def _cost_text(micro_usd: int, unpriced: int) -> str:
    if not unpriced:
        return usd(micro_usd) if micro_usd else ""
    return f"{usd(micro_usd) if micro_usd else 'unknown'}, {count(unpriced)} unpriced"
