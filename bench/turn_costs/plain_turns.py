"""The figures of plain turns, and their targets."""

import statistics
from collections.abc import Callable, Iterator
from itertools import cycle, islice

from bench.harness import process_metrics
from bench.harness.fixtures import SHORT, SHORT_STREAM, BenchSetup
from bench.harness.result_table import Row
from bench.harness.server_processes import MEMORY_AGENT, RECORDED, MeasuredProcess, body

STALL_MS = 100.0
GROWTH_MB = 2.0
"""Tolerance for the allocator's noise in the growth figure."""


def quantile(values: list[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    if not values:
        return float("nan")
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else float("nan")


def cpu(bench: BenchSetup) -> Iterator[Row]:
    """CPU time of the server for a turn, by length of history and load."""
    turns = bench.sizes.turns
    kinds: list[tuple[str, MeasuredProcess, Callable[[int], list[str]]]] = [
        ("baseline", bench.baseline, bench.short),
        ("stock", bench.stock, bench.short),
        ("short", bench.web, bench.short),
        ("long", bench.web, bench.long),
    ]
    used: dict[tuple[str, int], list[float]] = {}
    for number in range(bench.sizes.rounds):
        # The order varies, because noise comes in phases.
        first = number % len(kinds)
        for connections in (1, 16):
            for name, process, bodies in kinds[first:] + kinds[:first]:
                sample = bench.sample(process, bodies(turns), connections=connections)
                used.setdefault((name, connections), []).append(
                    sample.cpu_seconds / turns * 1e6
                )
    for connections in (1, 16):
        blocks = {name: used[name, connections] for name, _, _ in kinds}
        yield from _cpu_rows(f"{connections} connections", blocks)


def _cpu_rows(where: str, blocks: dict[str, list[float]]) -> Iterator[Row]:
    baseline = _median(blocks["baseline"])
    short = _median(blocks["short"])
    long = _median(blocks["long"])
    for name, title, target in (
        ("short", f"{SHORT} stored messages", 1100),
        ("long", "20,000 stored messages", 1100),
        ("baseline", "baseline: no database, light handler", None),
        ("stock", "baseline with Django's own handler", None),
    ):
        values = blocks[name]
        yield Row(
            f"CPU, {where}, {title}",
            _median(values),
            "µs",
            target,
            note=f"{_median(values) / baseline:.2f} x baseline; "
            f"blocks {min(values):,.0f}-{max(values):,.0f}",
        )
    yield Row(f"CPU, {where}, 20,000 over 20", long / short, "x", 1.1, digits=2)


def memory_turns(bench: BenchSetup) -> Iterator[Row]:
    """CPU time of a turn of users with facts, by agent."""
    used: dict[str, list[float]] = {"reply": [], MEMORY_AGENT: []}
    turns = bench.sizes.turns
    users = cycle(bench.known)
    for agent in used:
        bench.sample(bench.web, [body(agent, user) for user in bench.known])
    for _ in range(bench.sizes.rounds):
        for agent, blocks in used.items():
            bodies = [body(agent, user) for user in islice(users, turns)]
            sample = bench.sample(bench.web, bodies)
            blocks.append(sample.cpu_seconds / turns * 1e6)
    without, with_memory = (_median(blocks) for blocks in used.values())
    yield Row("CPU, known user, memory off", without, "µs")
    yield Row("CPU, known user, memory on", with_memory, "µs", 1500)
    yield Row(
        "CPU memory adds to a turn",
        with_memory - without,
        "µs",
        500,
        note="with a cached embedding of the question",
    )


def turn_records(bench: BenchSetup) -> Iterator[Row]:
    """CPU time that the record and the log line of each turn add."""
    turns = bench.sizes.turns
    users = cycle(bench.known)
    with bench.processes.web_with("project", RECORDED) as recorded:
        bench.processes.wait_for(recorded, body("reply", "warm"))
        kinds = [
            (process, agent)
            for agent in ("reply", MEMORY_AGENT)
            for process in (bench.web, recorded)
        ]
        used: dict[tuple[MeasuredProcess, str], list[float]] = {
            kind: [] for kind in kinds
        }
        for process, agent in kinds:
            bench.sample(process, [body(agent, user) for user in bench.known])
        for number in range(bench.sizes.rounds):
            first = number % len(kinds)
            for process, agent in kinds[first:] + kinds[:first]:
                bodies = [body(agent, user) for user in islice(users, turns)]
                sample = bench.sample(process, bodies)
                used[process, agent].append(sample.cpu_seconds / turns * 1e6)
        plain = _median(used[bench.web, "reply"])
        with_record = _median(used[recorded, "reply"])
        yield Row(
            "CPU, a turn with its record and a line in the log", with_record, "µs"
        )
        yield Row(
            "CPU the record and the line add to a turn", with_record - plain, "µs"
        )
        both = _median(used[recorded, MEMORY_AGENT])
        yield Row("CPU, a turn with memory, record and log", both, "µs", 1500)


def latency(bench: BenchSetup) -> Iterator[Row]:
    """The latency that a turn adds to its provider's reply, one after the other."""
    turns, direct, baseline = [], [], []
    for _ in range(bench.sizes.rounds):
        size = bench.sizes.turns
        direct.append(bench.sample(None, bench.direct(size)).outcome.latencies)
        turns.append(bench.sample(bench.web, bench.short(size)).outcome.latencies)
        baseline.append(
            bench.sample(bench.baseline, bench.short(size)).outcome.latencies
        )
    yield from _added("turn", turns, direct, p50_ms=1.2, p99_ms=4.0)
    yield _compared("baseline: added", baseline, direct)
    yield _uncompared("provider direct", direct)


def first_token(bench: BenchSetup) -> Iterator[Row]:
    """The latency that a stream adds to the provider's first token."""
    turns, direct = [], []
    size = max(1, bench.sizes.turns * 2 // 5)
    for _ in range(bench.sizes.rounds):
        control = bench.sample(None, bench.direct(size, SHORT_STREAM), tokens=4)
        direct.append(control.outcome.firsts)
        sample = bench.sample(bench.web, bench.short(size, SHORT_STREAM), tokens=4)
        turns.append(sample.outcome.firsts)
    yield from _added("first token", turns, direct, p50_ms=None, p99_ms=4.0)
    yield _uncompared("provider direct: first token", direct)


def _added(
    name: str,
    turns: list[list[float]],
    direct: list[list[float]],
    *,
    p50_ms: float | None,
    p99_ms: float,
) -> Iterator[Row]:
    """Compare each load with the median of the direct load before it."""
    for share, target in ((0.5, p50_ms), (0.99, p99_ms)):
        added = [
            quantile(turn, share) - quantile(provider, 0.5)
            for turn, provider in zip(turns, direct, strict=True)
        ]
        title = f"added to a {name}, p{share * 100:.0f}"
        yield Row(title, _median(added), "ms", target, digits=2)


def _compared(name: str, turns: list[list[float]], direct: list[list[float]]) -> Row:
    p50, p99 = (row.value for row in _added("", turns, direct, p50_ms=None, p99_ms=0.0))
    return Row(f"{name}, p50", p50, "ms", digits=2, note=f"p99 {p99:.2f} ms")


def _uncompared(name: str, blocks: list[list[float]]) -> Row:
    p50 = _median([quantile(block, 0.5) for block in blocks])
    p99 = _median([quantile(block, 0.99) for block in blocks])
    return Row(f"{name}, p50", p50, "ms", digits=2, note=f"p99 {p99:.2f} ms")


def throughput(bench: BenchSetup) -> Iterator[Row]:
    """Turns per second of one web process on one core."""
    rates: dict[str, list[float]] = {"web": [], "baseline": []}
    errors = 0
    size = bench.sizes.turns * 4
    for _ in range(max(1, bench.sizes.rounds // 2)):
        for name, process in (("web", bench.web), ("baseline", bench.baseline)):
            outcome = bench.sample(process, bench.short(size), connections=16).outcome
            rates[name].append(len(outcome.latencies) / outcome.seconds)
            errors += outcome.errors
    web, baseline = _median(rates["web"]), _median(rates["baseline"])
    yield Row(
        "turns a second, 16 connections",
        web,
        "/s",
        note=f"one process; {web / baseline:.2f} x baseline ({baseline:,.0f}/s)",
    )
    yield Row("errors meanwhile", errors, "", 0)


def streams(bench: BenchSetup) -> Iterator[Row]:
    """Concurrent streams, with a token every 20 ms."""
    for count in bench.sizes.streams:
        yield from _streams(bench, count)


def _streams(bench: BenchSetup, count: int) -> Iterator[Row]:
    tokens, agent = bench.sizes.stream_tokens, bench.sizes.paced
    gaps: list[float] = []
    control: list[float] = []
    used: list[float] = []
    errors = 0
    for _ in range(bench.sizes.stream_rounds):
        options = {"connections": count, "tokens": tokens, "spread_seconds": 0.2}
        direct = bench.sample(None, bench.direct(count, agent), **options)
        control += direct.outcome.gaps
        sample = bench.sample(bench.web, bench.short(count, agent), **options)
        gaps += sample.outcome.gaps
        errors += sample.outcome.errors
        used.append(sample.cpu_seconds / (count * tokens) * 1e6)
    has_target = count <= 64
    yield Row(
        f"{count} streams: stalls over {STALL_MS:.0f} ms",
        _stalls(gaps),
        "",
        0 if has_target else None,
        note=f"provider direct {_stalls(control)}; {errors} errors",
    )
    yield Row(
        f"{count} streams: gap between tokens, p99",
        quantile(gaps, 0.99),
        "ms",
        digits=1,
        note=f"longest {max(gaps, default=0):.1f}; provider direct p99 "
        f"{quantile(control, 0.99):.1f}, longest {max(control, default=0):.1f}",
    )
    yield Row(f"{count} streams: CPU per token", _median(used), "µs")


def _stalls(gaps: list[float]) -> int:
    return sum(gap > STALL_MS for gap in gaps)


def memory(bench: BenchSetup) -> Iterator[Row]:
    """The memory of a new server after many turns of many users."""
    sizes = bench.sizes
    stored = [(f"memory-{n}", SHORT) for n in range(sizes.memory_users)]
    users = cycle(user for user, _ in stored)
    # With enough rows to fill SQLite's page cache (8 MB) in the first half.
    with bench.processes.web("memory", stored) as web:
        bench.processes.wait_for(web, body("reply", "warm"))
        sizes_mb = [process_metrics.rss_mb(web.pid)]
        for _ in range(2):
            bodies = [body("reply", user) for user in islice(users, sizes.memory_turns)]
            for start in range(0, len(bodies), 5000):
                bench.sample(web, bodies[start : start + 5000], connections=16)
            sizes_mb.append(process_metrics.rss_mb(web.pid))
    started, first, second = sizes_mb
    turns = f"{sizes.memory_turns:,}"
    yield Row(
        f"memory after {turns} turns",
        first,
        "MB",
        150,
        note=f"{started:.0f} MB when started; {sizes.memory_users:,} users",
    )
    yield Row(f"growth in the next {turns}", second - first, "MB", GROWTH_MB, digits=1)


FIGURES: dict[str, Callable[[BenchSetup], Iterator[Row]]] = {
    "cpu": cpu,
    "memory-turns": memory_turns,
    "turn-records": turn_records,
    "latency": latency,
    "throughput": throughput,
    "first-token": first_token,
    "streams": streams,
    "memory": memory,
}
