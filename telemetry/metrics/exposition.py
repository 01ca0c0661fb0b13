"""The answer to a scrape: the metrics of all processes of this machine."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from prometheus_client import exposition
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.openmetrics import exposition as openmetrics

from telemetry.metrics import exemplars
from telemetry.metrics.figures import Figure
from telemetry.metrics.process_files import ROLES, find_processes
from telemetry.metrics.recorder import MODEL_LABELS

OPEN_METRICS = "application/openmetrics-text"


class Collected:
    """Metrics, as prometheus-client's encoders read them from a registry."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = sorted(metrics, key=lambda metric: metric.name)

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def render(
    accept: str, directory: Path, figures: Sequence[Figure]
) -> tuple[bytes, str]:
    """Return the metrics of this machine and the figures, with their content type.

    With exemplars if the client accepts OpenMetrics. Raises OSError.
    """
    processes = find_processes(directory)
    files = [str(path) for path in directory.glob("*.db")]
    recorded = list(MultiProcessCollector.merge(files))
    own = [_count_processes(processes), *_disk(directory)]
    registry: Any = Collected([*recorded, *map(_gauge, [*own, *figures])])
    if OPEN_METRICS not in accept:
        return exposition.generate_latest(registry), exposition.CONTENT_TYPE_PLAIN_0_0_4
    exemplars.attach(recorded, exemplars.read_exemplars(directory), MODEL_LABELS)
    return openmetrics.generate_latest(registry), openmetrics.CONTENT_TYPE_LATEST


def _count_processes(names: Sequence[str]) -> Figure:
    counts = dict.fromkeys([(role,) for role in ROLES], 0)
    for name in names:
        counts[name.partition("-")[0],] += 1
    return Figure("processes", "Processes of this machine.", ("role",), counts.items())


def _disk(directory: Path) -> Iterator[Figure]:
    usage = shutil.disk_usage(directory)
    help_text = "the disk with the state directory."
    yield Figure("disk_free_bytes", f"Free on {help_text}", (), [((), usage.free)])
    yield Figure("disk_size_bytes", f"Size of {help_text}", (), [((), usage.total)])


def _gauge(figure: Figure) -> Metric:
    family = GaugeMetricFamily(
        f"coulisse_{figure.name}", figure.help, labels=figure.labels
    )
    for labels, value in figure.values:
        family.add_metric(labels, value)
    return family
