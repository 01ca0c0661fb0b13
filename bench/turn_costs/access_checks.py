"""The cost of access checks: token, budget, limits and price."""

import statistics
from collections.abc import Callable, Iterator

from bench.harness.fixtures import BenchSetup
from bench.harness.result_table import Row
from bench.harness.server_processes import LIMITED, MeasuredProcess, body
from bench.load import LoadRequest

USER = "short-0"
"""The user of the token and of the turns without a token."""
REQUEST = body("reply", USER)


def access_checks(bench: BenchSetup) -> Iterator[Row]:
    """CPU time that a token with a budget, limits and a price add to a turn."""
    secret = bench.processes.create_token("project", USER)
    head = f"Authorization: Bearer {secret}\r\n"
    with bench.processes.web_with("project", LIMITED) as limited:
        bench.processes.wait_for(limited, REQUEST, head)
        servers = [(bench.web, ""), (limited, head), (bench.baseline, "")]
        used: dict[MeasuredProcess, list[float]] = {server: [] for server, _ in servers}
        for server, credential in servers:
            _sample(bench, server, credential)
        for number in range(bench.sizes.rounds):
            for server, credential in servers[:: -1 if number % 2 else 1]:
                used[server].append(_sample(bench, server, credential))
        plain, checked, baseline = map(statistics.median, used.values())
    yield Row("CPU, a turn behind a token, a budget and five limits", checked, "µs")
    yield Row(
        "CPU token, budget, limits and cost add to a turn",
        checked - plain,
        "µs",
        250,
        note=f"{(checked - plain) / baseline:.2f} x baseline ({baseline:,.0f} µs); "
        f"the turn without is {plain:,.0f}",
    )


def _sample(bench: BenchSetup, server: MeasuredProcess, head: str) -> float:
    """Return the CPU microseconds per turn of one load."""
    turns = bench.sizes.turns
    sample = bench.send(server, LoadRequest(server.port, [REQUEST] * turns, head=head))
    return sample.cpu_seconds / turns * 1e6


FIGURES: dict[str, Callable[[BenchSetup], Iterator[Row]]] = {
    "access-checks": access_checks
}
