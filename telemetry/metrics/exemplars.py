"""Exemplars: for each bucket of a histogram, the last turn that was counted in it.

prometheus-client keeps none between processes. Each process writes its own into a file
beside its values, at most once a second; the process that answers a scrape reads all.
"""

import time
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

import orjson
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from telemetry.metrics.figures import Reference

Key = tuple[str, tuple[str, ...], str]
"""The metric, the values of its labels, and the upper bound of the bucket."""
LE = "le"


class ExemplarStore:
    """The exemplars of one process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._latest: dict[Key, tuple[str, str | uuid.UUID, float, float]] = {}
        self._has_changed = False

    def set(self, key: Key, reference: Reference, value: float) -> None:
        """Set the exemplar of a bucket."""
        self._latest[key] = *reference, value, time.time()
        self._has_changed = True

    def save(self) -> None:
        """Write the file if exemplars have changed; raises OSError."""
        if self._has_changed:
            self._has_changed = False
            # Not synced to the disk, for which the event loop would wait.
            part = self._path.with_suffix(".part")
            part.write_bytes(orjson.dumps([*self._latest.items()]))
            part.replace(self._path)


def bucket_keys(
    metric: str, labels: tuple[str, ...], bounds: Sequence[float]
) -> list[Key]:
    """Return the keys of the buckets of a histogram; the last one has no bound."""
    names = map(floatToGoString, [*bounds, float("inf")])
    return [(metric, labels, name) for name in names]


def read_exemplars(directory: Path) -> dict[Key, Exemplar]:
    """Return the newest exemplars of all processes."""
    latest: dict[Key, tuple[str, str, float, float]] = {}
    for path in directory.glob("exemplars_*.json"):
        for (metric, labels, bound), stored in orjson.loads(path.read_bytes()):
            key = metric, tuple(labels), bound
            if key not in latest or latest[key][-1] < stored[-1]:
                latest[key] = stored
    return {
        key: Exemplar({name: text.replace("-", "")}, value, at)
        for key, (name, text, value, at) in latest.items()
    }


def attach(
    metrics: Iterable[Metric], exemplars: dict[Key, Exemplar], names: Sequence[str]
) -> None:
    """Add exemplars to the buckets of histograms with these labels."""
    for metric in metrics:
        if metric.type == "histogram":
            metric.samples = [
                sample._replace(exemplar=exemplars.get(key))
                if (key := _key(metric.name, sample.labels, names))
                else sample
                for sample in metric.samples
            ]


def _key(metric: str, labels: dict[str, str], names: Sequence[str]) -> Key | None:
    if LE not in labels:
        return None
    return metric, tuple(labels.get(name, "") for name in names), labels[LE]
