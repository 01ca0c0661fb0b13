"""The dashboard and the alert rules name metrics that a scrape contains."""

import json
import re
from collections.abc import Iterator

import pytest
from django.conf import settings
from ruamel.yaml import YAML

from core.trace import Attempt
from providers.transport import endpoint_pool
from telemetry.metrics import recording
from telemetry.types import Diagnostics
from tests.gateway.calls import ask
from tests.gateway.metrics.conftest import scrape
from tests.telemetry.metrics.scrapes import Scrape
from tests.telemetry.sample_turns import make_record, model_call

pytestmark = pytest.mark.database

DEPLOY = settings.BASE_DIR / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana/coulisse.json").read_text())
ALERTS = YAML(typ="safe", pure=True).load(DEPLOY / "prometheus/alerts.yaml")
DOCS = (settings.BASE_DIR / "docs/metrics.md").read_text()
NAME = re.compile(r"coulisse_\w+")
SELECTOR = re.compile(r"(coulisse_\w+)\{([^}]*)\}")
LABEL = re.compile(r'(\w+)\s*(?:=~|!=|!~|=)\s*"')
GROUPING = re.compile(r"\bby \(([^)]*)\)")
SCRAPE_LABELS = {"instance", "job", "le"}
"""Added by Prometheus, or by every histogram."""


def panel_expressions() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]


def alert_rules() -> Iterator[dict]:
    for group in ALERTS["groups"]:
        yield from group["rules"]


@pytest.fixture
def found(measured: str, client, user) -> Scrape:
    """A scrape after everything that is measured has happened once."""
    ask(client, user)
    (pool,) = endpoint_pool._pools.values()
    pool.endpoints[0].circuit.open_until = float("inf")
    recorder = recording.active
    attempts = [Attempt("", 0.1, "down"), Attempt("", 0.2)]
    call = model_call(attempts=attempts, is_continued=True)
    waited = Diagnostics(first_event_seconds=0.5)
    recorder.turn_ended(make_record(call, is_streamed=True, diagnostics=waited), None)
    recorder.expense_recorded("judge", 12)
    recorder.leases_lost(1)
    return scrape(measured)


def test_dashboard_and_alerts_name_existing_metrics(found: Scrape):
    expressions = [*panel_expressions(), *(rule["expr"] for rule in alert_rules())]
    named = {name for each in expressions for name in NAME.findall(each)}
    assert len(named) > 25
    assert named - found.names == set()


def test_dashboard_and_alerts_name_existing_labels(found: Scrape):
    for expression in [*panel_expressions(), *(r["expr"] for r in alert_rules())]:
        known = set(SCRAPE_LABELS)
        for name in NAME.findall(expression):
            known |= {label for each in found.samples(name) for label in each.labels}
        selectors = SELECTOR.findall(expression)
        used = {label for _, text in selectors for label in LABEL.findall(text)}
        for labels in GROUPING.findall(expression):
            used |= {label.strip() for label in labels.split(",")}
        assert used - known == set(), expression


def test_every_metric_is_in_the_dashboard_and_the_documentation(found: Scrape):
    shown = " ".join(panel_expressions())
    for metric in found.metrics:
        assert f"`{metric.name}`" in DOCS, metric.name
        assert metric.name in shown, metric.name


def test_documentation_names_existing_metrics(found: Scrape):
    names = {metric.name for metric in found.metrics}
    documented = set(re.findall(r"^\| `(coulisse_\w+)`", DOCS, re.MULTILINE))
    assert documented == names


def test_alerts_say_what_to_do():
    rules = list(alert_rules())
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 15
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_panels_do_not_overlap():
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
