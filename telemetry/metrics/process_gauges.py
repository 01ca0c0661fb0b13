"""The gauges that each process writes once a second."""

import time

import psutil  # type: ignore[import-untyped]

from config import live
from config.errors import ConfigInvalid
from database import database_executor
from database.running_processes import STATE
from providers.transport import endpoint_pool
from telemetry.live_turns.active_turns import ACTIVE_TURNS
from telemetry.metrics.recorder import MAX_LABEL_LENGTH, MAX_SERIES, Recorder

_process = psutil.Process()
_known_error: ConfigInvalid | None = None
_circuits: set[tuple[str, str, str]] = set()
"""Those that were ever open."""


def sample(recorder: Recorder) -> None:
    """Write the gauges of this process; raises OSError."""
    gauge = recorder.set_gauge
    gauge("process_sampled_timestamp_seconds", "Last sample of a process.", time.time())
    gauge(
        "process_resident_memory_bytes",
        "Memory of a process.",
        _process.memory_info().rss,
    )
    gauge("turns_running", "Turns that run, without incognito.", ACTIVE_TURNS.count())
    usage = database_executor.usage()
    gauge("database_threads", "Threads for the database.", usage.threads)
    gauge("database_threads_busy", "Busy threads for the database.", usage.busy)
    gauge("database_calls_waiting", "Calls that wait for a thread.", usage.waiting)
    gauge(
        "database_writable",
        "0 while this process cannot store rows.",
        not STATE.find_problem(),
    )
    _sample_configuration(recorder)
    _sample_circuits(recorder)
    recorder.exemplars.save()


def _sample_configuration(recorder: Recorder) -> None:
    global _known_error
    error = live.file_error()
    if error is not None and error is not _known_error:
        recorder.reload_failures.inc()
    _known_error = error
    recorder.set_gauge(
        "config_file_valid", "0 if a process refused the YAML.", error is None
    )
    recorder.set_gauge(
        "config_restart_pending",
        "1 if edits of the YAML wait for a restart.",
        bool(live.pending_restart()),
    )


def _sample_circuits(recorder: Recorder) -> None:
    is_open = {
        tuple(name[:MAX_LABEL_LENGTH] for name in names)
        for names in endpoint_pool.open_circuits()
    }
    for provider, model, endpoint in is_open:
        if len(_circuits) < MAX_SERIES:
            _circuits.add((provider, model, endpoint))
    for names in _circuits:
        recorder.circuits.labels(*names).set(names in is_open)
