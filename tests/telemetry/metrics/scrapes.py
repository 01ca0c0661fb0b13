"""Reads what `/metrics` returns."""

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


class Scrape:
    """A body in OpenMetrics format."""

    def __init__(self, text: str) -> None:
        self.metrics: list[Metric] = list(text_string_to_metric_families(text))

    def samples(self, name: str, **labels: str) -> list[Sample]:
        """Return the samples of this name that have these labels."""
        return [
            sample
            for metric in self.metrics
            for sample in metric.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of these samples; 0 if there are none."""
        return sum(sample.value for sample in self.samples(name, **labels))

    def labels(self, name: str, label: str) -> set[str]:
        """Return the values of a label."""
        return {sample.labels[label] for sample in self.samples(name)}

    def exemplars(self, name: str) -> dict[str, tuple[str, str]]:
        """Return the labels of the exemplars, by bucket."""
        return {
            sample.labels["le"]: next(iter(sample.exemplar.labels.items()))
            for sample in self.samples(name)
            if sample.exemplar is not None
        }

    @property
    def names(self) -> set[str]:
        return {sample.name for metric in self.metrics for sample in metric.samples}
