"""The metrics that a process records, and what they count.

`docs/metrics.md` lists them. A plain turn changes about ten values of a microsecond
each. Names and models come from the YAML; a limit keeps even those of many edits from
becoming too many series.
"""

import functools
import logging
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple, ParamSpec, get_args

from prometheus_client import Counter, Gauge, Histogram, values

from core import trace
from core.events import Usage
from core.trace import ModelCall
from telemetry.metrics.exemplars import ExemplarStore, bucket_keys
from telemetry.metrics.figures import Reference
from telemetry.metrics.file_values import ValueFiles, value_class
from telemetry.metrics.process_files import ProcessFiles
from telemetry.types import Outcome, TurnRecord

MAX_SERIES = 100
"""Combinations of agent and model; further ones are counted as `OTHER`. With more, the
files would need more than their size."""
MAX_LABEL_LENGTH = 100
OTHER = "other"
OUTCOMES = get_args(Outcome)
MODEL_LABELS = ("agent", "provider", "model")
TURN_SECONDS = (0.5, 1, 2.5, 5, 10, 30, 60, 300)
FIRST_TOKEN_SECONDS = (0.25, 0.5, 1, 2, 5, 10, 30)
LAG_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 5)
USAGE_KINDS = (
    ("input", "input_tokens"),
    ("output", "output_tokens"),
    ("cache_read", "cache_read_tokens"),
    ("cache_write", "cache_write_tokens"),
    ("reasoning", "reasoning_tokens"),
)
Labels = tuple[str, str, str]


Add = Callable[[float], None]
"""Adds to a counter. The library's own method checks each value, for three times the
cost of adding it."""


class Distribution:
    """The histogram of one series."""

    def __init__(
        self, histogram: Histogram, labels: Labels, exemplars: ExemplarStore
    ) -> None:
        child = histogram.labels(*labels)
        self._bounds = child._upper_bounds
        self._add_sum: Add = child._sum.inc
        self._add_to_bucket: list[Add] = [bucket.inc for bucket in child._buckets]
        self._keys = bucket_keys(histogram._name, labels, self._bounds[:-1])
        self._exemplars = exemplars

    def observe(self, value: float, reference: Reference | None) -> None:
        """Count a value, with the reference as its exemplar."""
        position = bisect_left(self._bounds, value)
        self._add_sum(value)
        self._add_to_bucket[position](1)
        if reference is not None:
            self._exemplars.set(self._keys[position], reference, value)


P = ParamSpec("P")

logger = logging.getLogger(__name__)


def harmless(record: Callable[P, None]) -> Callable[P, None]:
    """Let a method log its errors: what it counts must not fail with the metrics."""

    @functools.wraps(record)
    def record_or_log(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            record(*args, **kwargs)
        except Exception:
            logger.exception("could not record metrics")

    return record_or_log


class Series(NamedTuple):
    """The metrics of one agent and model."""

    labels: Labels
    seconds: Distribution
    first_token: Distribution
    turns: dict[str, Add]
    """By outcome."""
    tokens: list[tuple[str, Add]]
    """By field of `Usage`."""
    cost: Add
    unpriced: Add
    requests: dict[str, Add]
    """To the provider, by outcome."""


class Recorder:
    """The metrics of one process."""

    def __init__(self, files: ProcessFiles) -> None:
        """Create the metrics in the process's files; raises OSError."""
        self.process = files.name
        self.exemplars = ExemplarStore(files.exemplars())
        self._files, self._value_files = files, ValueFiles(files)
        # The library has no other way to choose the class of values.
        values.ValueClass = value_class(self._value_files)
        self._series: dict[Labels, Series] = {}
        self._add_request: dict[tuple[str, int], Add] = {}
        self._add_turn_metrics()
        self._add_background_metrics()
        self._add_process_metrics()

    def close(self) -> None:
        """Release the files and the process's name."""
        self._value_files.close()
        self._files.close()

    def _add_turn_metrics(self) -> None:
        self._requests = _counter(
            "requests", "HTTP requests, refused ones included.", "endpoint", "status"
        )
        self._turns = _counter("turns", "Turns that ended.", *MODEL_LABELS, "outcome")
        self._turn_seconds = Histogram(
            "coulisse_turn_seconds",
            "Duration of turns.",
            MODEL_LABELS,
            registry=None,
            buckets=TURN_SECONDS,
        )
        self._first_token = Histogram(
            "coulisse_time_to_first_token_seconds",
            "Time until the first part of a streamed reply.",
            MODEL_LABELS,
            registry=None,
            buckets=FIRST_TOKEN_SECONDS,
        )
        self._tokens = _counter(
            "tokens", "Tokens of model calls in turns.", *MODEL_LABELS, "kind"
        )
        self._cost = _counter(
            "cost_usd", "Cost of model calls in turns with a price.", *MODEL_LABELS
        )
        self._unpriced = _counter(
            "unpriced_calls", "Model calls without a known price.", *MODEL_LABELS
        )
        self._provider_requests = _counter(
            "provider_requests",
            "Requests to providers by turns.",
            "provider",
            "model",
            "outcome",
        )
        self._retries = _counter(
            "provider_retries",
            "Requests to providers after the first one of a call.",
            "provider",
            "model",
        )
        self._rescues = _counter(
            "rescues",
            "Replies that broke off and were continued.",
            "provider",
            "model",
        )

    def _add_background_metrics(self) -> None:
        self._expenses = _counter(
            "background_cost_usd", "Cost of model calls outside turns.", "purpose"
        )
        self._lost_leases = _counter(
            "lease_losses", "Leases of tasks that expired or were taken over."
        )

    def _add_process_metrics(self) -> None:
        self.loop_lag = Histogram(
            "coulisse_event_loop_lag_seconds",
            "How late the event loop runs a timer, once a second.",
            ("process",),
            registry=None,
            buckets=LAG_SECONDS,
        ).labels(self.process)
        self.reload_failures = _counter(
            "config_reload_failures", "Edits of the YAML that a process refused."
        )
        self.circuits = _gauge(
            "circuit_breaker_open",
            "1 while a circuit breaker refuses calls.",
            "provider",
            "model",
            "endpoint",
        )
        self._gauges: dict[str, Gauge] = {}

    def set_gauge(self, name: str, help_text: str, value: float) -> None:
        """Set a value of this process; the gauge is created by the first call."""
        gauge = self._gauges.get(name)
        if gauge is None:
            made = _gauge(name, help_text, "process")
            gauge = self._gauges[name] = made.labels(self.process)
        gauge.set(value)

    @harmless
    def request_ended(self, endpoint: str, status: int) -> None:
        add = self._add_request.get((endpoint, status))
        if add is None:
            add = _add_to(self._requests, endpoint, str(status))
            self._add_request[endpoint, status] = add
        add(1)

    @harmless
    def leases_lost(self, count: int) -> None:
        """Count leases that their workers did not extend."""
        self._lost_leases.inc(count)

    @harmless
    def expense_recorded(self, purpose: str, micro_usd: int | None) -> None:
        """Count the cost of model calls outside turns."""
        self._expenses.labels(purpose).inc((micro_usd or 0) / 1_000_000)

    @harmless
    def turn_ended(self, record: TurnRecord, reference: Reference | None) -> None:
        """Count a turn, as an exemplar if it has a reference, and its model calls."""
        for call in trace.iter_model_calls([*record.calls]):
            self._count_call(call)
        series = self._series_of_turn(record)
        series.turns[record.outcome](1)
        series.seconds.observe(record.seconds, reference)
        waited = record.diagnostics.first_event_seconds
        if record.is_streamed and waited is not None:
            series.first_token.observe(waited, reference)

    def _series_of_turn(self, record: TurnRecord) -> Series:
        """Return the series of the agent and the model that served the turn."""
        for call in reversed(record.calls):
            if isinstance(call, ModelCall):
                return self._find_series((record.agent, call.provider, call.model))
        # A safety check replied, or the prompt was refused.
        return self._find_series((record.agent, "", ""))

    def _count_call(self, call: ModelCall) -> None:
        series = self._find_series((call.agent, call.provider, call.model))
        if call.usage is not None:
            _count_tokens(series.tokens, call.usage)
            if call.cost_micro_usd is None:
                series.unpriced(1)
            else:
                series.cost(call.cost_micro_usd / 1_000_000)
        for attempt in call.attempts:
            outcome = "ok" if attempt.error is None else "error"
            if attempt.error == trace.CANCELLED:
                outcome = trace.CANCELLED
            series.requests[outcome](1)
        if len(call.attempts) > 1:
            self._retries.labels(*series.labels[1:]).inc(len(call.attempts) - 1)
        if call.is_continued:
            self._rescues.labels(*series.labels[1:]).inc()

    def _find_series(self, labels: Labels) -> Series:
        series = self._series.get(labels)
        if series is None:
            series = self._add_series(labels)
        return series

    def _add_series(self, labels: Labels) -> Series:
        is_full = len(self._series) >= MAX_SERIES
        if is_full and labels != (OTHER,) * 3:
            return self._find_series((OTHER, OTHER, OTHER))
        agent, provider, model = (label[:MAX_LABEL_LENGTH] for label in labels)
        short = agent, provider, model
        series = self._series[labels] = Series(
            short,
            Distribution(self._turn_seconds, short, self.exemplars),
            Distribution(self._first_token, short, self.exemplars),
            {each: _add_to(self._turns, *short, each) for each in OUTCOMES},
            [
                (field, _add_to(self._tokens, *short, kind))
                for kind, field in USAGE_KINDS
            ],
            _add_to(self._cost, *short),
            _add_to(self._unpriced, *short),
            {
                each: _add_to(self._provider_requests, provider, model, each)
                for each in OUTCOMES
            },
        )
        return series


def _count_tokens(tokens: Sequence[tuple[str, Add]], usage: Usage) -> None:
    for field, add in tokens:
        # Providers' own figures, which may be negative.
        if (count := getattr(usage, field)) > 0:
            add(count)


def _add_to(counter: Counter, *labels: str) -> Add:
    add: Add = counter.labels(*labels)._value.inc
    return add


def _counter(name: str, help_text: str, *labels: str) -> Counter:
    return Counter(f"coulisse_{name}", help_text, labels, registry=None)


def _gauge(name: str, help_text: str, *labels: str) -> Gauge:
    return Gauge(
        f"coulisse_{name}", help_text, labels, registry=None, multiprocess_mode="max"
    )
