"""What it costs to ask who calls and how much they may: token, budget, limits, cost."""

import statistics
from collections.abc import Callable, Iterator

from bench.harness.fixtures import BenchSetup
from bench.harness.result_table import Row
from bench.harness.server_processes import GUARDED, MeasuredProcess, body
from bench.load import LoadRequest

USER = "short-0"
"""Whom the token is bound to; the turns without a token are theirs too."""
ASKED = body("reply", USER)


def access_checks(bench: BenchSetup) -> Iterator[Row]:
    """CPU time that a token with a budget, limits and a price add to a turn."""
    secret = bench.stage.mint("project", USER)
    head = f"Authorization: Bearer {secret}\r\n"
    with bench.stage.other_web("project", GUARDED) as guarded:
        bench.stage.wait_for(guarded, ASKED, head)
        servers = [(bench.web, ""), (guarded, head), (bench.floor, "")]
        used: dict[MeasuredProcess, list[float]] = {server: [] for server, _ in servers}
        for server, credential in servers:
            _sample(bench, server, credential)
        for number in range(bench.sizes.rounds):
            for server, credential in servers[:: -1 if number % 2 else 1]:
                used[server].append(_sample(bench, server, credential))
        plain, kept, floor = map(statistics.median, used.values())
    yield Row("CPU, a turn behind a token, a budget and five limits", kept, "µs")
    yield Row(
        "CPU token, budget, limits and cost add to a turn",
        *(kept - plain, "µs", 250),
        note=f"{(kept - plain) / floor:.2f} x floor ({floor:,.0f} µs); "
        f"the turn without is {plain:,.0f}",
    )


def _sample(bench: BenchSetup, server: MeasuredProcess, head: str) -> float:
    """Return the CPU microseconds of a turn, of a block of them."""
    turns = bench.sizes.turns
    sample = bench.send(server, LoadRequest(server.port, [ASKED] * turns, head=head))
    return sample.cpu_seconds / turns * 1e6


FIGURES: dict[str, Callable[[BenchSetup], Iterator[Row]]] = {"guarding": access_checks}
