"""How long the studio's pages take: `python -m bench studio [-c PATH] [ADDRESS …]`.

Each page is asked for in this process, through the middleware a server has, against the
database of a configuration: `manage.py demo --users 10000 --turns 100000 --messages
1000000` fills one. With `DATABASE_URL` that is PostgreSQL. What counts is CPU, the
database's with ours, which a busy machine stretches least.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

LIMIT_MS = 150
TIMES = 5
"""After one that warms it up."""


@dataclass(frozen=True)
class PageTiming:
    """One address, and what it took."""

    address: str
    status: int
    wall_ms: float
    """The shortest."""
    cpu_ms: float
    """The median: of this process, and of the database's own where it is beside it."""
    queries: int
    slowest: str
    """The query that took longest."""
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
    parser.add_argument("addresses", nargs="*", help="unless given, all there are")
    parser.add_argument("-c", "--config", help="the YAML whose database is read")
    parser.add_argument("--slow", action="store_true", help="show the slowest queries")
    options = parser.parse_args(arguments)
    if options.config:
        os.environ["COULISSE_CONFIG"] = options.config
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
    import django

    django.setup()
    from bench.scenarios import studio_addresses

    asked = options.addresses or studio_addresses.addresses()
    print(f"{'page':70}  {'wall ms':>7}  {'CPU ms':>7}  {'queries':>7}")
    measured = []
    for address in asked:
        page = measure(address, studio_addresses.get, studio_addresses.database_seconds)
        measured.append(page)
        print(page.line(), flush=True)
        if options.slow and page.slowest_ms > LIMIT_MS / 5:
            print(f"    {page.slowest_ms:.1f} ms: {page.slowest[:600]}")
    over = sum(page.is_over for page in measured)
    print(f"\n{over} over {LIMIT_MS} ms or not there" if over else "\nnone is over")


Get = Callable[[str], tuple[int, list[tuple[str, float]]]]


def measure(
    address: str, get: Get, database_seconds: Callable[[], float]
) -> PageTiming:
    """Ask for a page a few times; what the database took besides is told in seconds."""

    def spent() -> float:
        return time.thread_time() + database_seconds()

    get(address)
    walls, cpus = [], []
    status, queries = 0, []
    for _ in range(TIMES):
        wall, cpu = time.perf_counter(), spent()
        status, queries = get(address)
        walls.append(time.perf_counter() - wall)
        cpus.append(spent() - cpu)
    slowest = max(queries, key=lambda each: each[1], default=("", 0.0))
    return PageTiming(
        *(address, status),
        # Others on the machine make it longer, and nothing makes it shorter.
        *(min(walls) * 1000, statistics.median(cpus) * 1000),
        *(len(queries), slowest[0], slowest[1] * 1000),
    )
