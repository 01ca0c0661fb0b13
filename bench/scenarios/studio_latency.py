"""The latency of the studio's pages: `python -m bench studio [-c PATH] [ADDRESS …]`.

Each page is requested in this process, through the middleware of a server, with the
database of a configuration: `manage.py demo --users 10000 --turns 100000 --messages
1000000` fills one. With `DATABASE_URL` it is PostgreSQL. The limit applies to the CPU
time of this process and the database, which depends least on the load of the machine.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

LIMIT_MS = 150
REPETITIONS = 5
"""Measured requests, after one to warm up."""


@dataclass(frozen=True)
class PageTiming:
    """The measurement of one address."""

    address: str
    status: int
    wall_ms: float
    """Minimum."""
    cpu_ms: float
    """Median, of this process and of a database on this machine."""
    queries: int
    slowest: str
    """The slowest query."""
    slowest_ms: float

    @property
    def is_over(self) -> bool:
        return self.cpu_ms > LIMIT_MS or self.status >= 400

    def line(self) -> str:
        mark = "" if self.status < 400 else f"  status {self.status}"
        mark += "  OVER" if self.cpu_ms > LIMIT_MS else ""
        return (
            f"{self.address[:70]:70}  {self.wall_ms:7.1f}  {self.cpu_ms:7.1f}  "
            f"{self.queries:7}{mark}"
        )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench studio", description=__doc__)
    parser.add_argument("addresses", nargs="*", help="default: all pages")
    parser.add_argument("-c", "--config", help="the YAML whose database is used")
    parser.add_argument("--slow", action="store_true", help="show the slowest queries")
    options = parser.parse_args(arguments)
    if options.config:
        os.environ["COULISSE_CONFIG"] = options.config
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
    import django

    django.setup()
    from bench.scenarios import studio_addresses

    requested = options.addresses or studio_addresses.addresses()
    print(f"{'page':70}  {'wall ms':>7}  {'CPU ms':>7}  {'queries':>7}")
    measured = []
    for address in requested:
        page = measure(address, studio_addresses.get, studio_addresses.database_seconds)
        measured.append(page)
        print(page.line(), flush=True)
        if options.slow and page.slowest_ms > LIMIT_MS / 5:
            print(f"    {page.slowest_ms:.1f} ms: {page.slowest[:600]}")
    over = sum(page.is_over for page in measured)
    print(
        f"\n{over} over {LIMIT_MS} ms or failed" if over else "\nall within the limit"
    )


Get = Callable[[str], tuple[int, list[tuple[str, float]]]]


def measure(
    address: str, get: Get, database_seconds: Callable[[], float]
) -> PageTiming:
    """Request a page a few times; `database_seconds` returns the database's CPU."""

    def cpu_seconds() -> float:
        return time.thread_time() + database_seconds()

    get(address)
    walls, cpus = [], []
    status, queries = 0, []
    for _ in range(REPETITIONS):
        wall, cpu = time.perf_counter(), cpu_seconds()
        status, queries = get(address)
        walls.append(time.perf_counter() - wall)
        cpus.append(cpu_seconds() - cpu)
    slowest = max(queries, key=lambda query: query[1], default=("", 0.0))
    return PageTiming(
        address,
        status,
        # The minimum, because other processes can only make it longer.
        min(walls) * 1000,
        statistics.median(cpus) * 1000,
        len(queries),
        slowest[0],
        slowest[1] * 1000,
    )
