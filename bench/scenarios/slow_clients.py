"""Slow clients beside honest ones: `python -m bench slow-clients`.

300 clients send half a request and 40 half a body, all at once. Some say nothing more,
some drip a little each second, and some bodies come just fast enough. Meanwhile 64
streams are read. When is each slow client gone, and do the streams notice? It takes
about a minute and a half.
"""

import argparse
import asyncio
import statistics
import threading
import time
from dataclasses import dataclass, field

from bench.harness.process_metrics import MachineLoad
from bench.harness.result_table import Row, render
from bench.harness.server_processes import MeasuredProcess, ServerProcesses, body
from bench.load import LoadRequest

HALF_HEADS, HALF_BODIES = 300, 40
STREAMS = 64
TOKENS = 150
AGENT = f"stream-{TOKENS}-20"
TURNS = 5
"""Streams of each connection in a block."""
GIVE_UP_SECONDS = 140.0
STALL_MS = 100.0
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HALF_BODY = HEAD + b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{"
HEAD_DRIPS = (b"", b"X: a\r\n")
BODY_DRIPS = (b"", b" ", b" " * 2048)
"""What is sent each second; the last is above the least rate."""


@dataclass
class SlowClients:
    """The slow clients, in a thread with an event loop of its own."""

    port: int
    heads_gone: list[float] = field(default_factory=list)
    """Seconds after which each was gone."""
    bodies_gone: list[float] = field(default_factory=list)

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        attackers = [
            self._attack(HEAD, HEAD_DRIPS[number % 2], self.heads_gone)
            for number in range(HALF_HEADS)
        ]
        attackers += [
            self._attack(HALF_BODY, BODY_DRIPS[number % 3], self.bodies_gone)
            for number in range(HALF_BODIES)
        ]
        await asyncio.gather(*attackers)

    async def _attack(self, sent: bytes, drip: bytes, gone: list[float]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        began_at = time.monotonic()
        writer.write(sent)
        dripping = asyncio.create_task(_send_slowly(writer, drip))
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                await reader.read()
        except TimeoutError:
            pass
        except ConnectionError:
            gone.append(time.monotonic() - began_at)
        else:
            gone.append(time.monotonic() - began_at)
        dripping.cancel()
        writer.close()


async def _send_slowly(writer: asyncio.StreamWriter, drip: bytes) -> None:
    while drip:
        await asyncio.sleep(1)
        writer.write(drip)


@dataclass
class RegularStreams:
    """What honest clients saw."""

    count: int = 0
    errors: int = 0
    first_error: str = ""
    gaps: list[float] = field(default_factory=list)

    def read(self, stage: ServerProcesses, web: MeasuredProcess) -> None:
        """Read a block of streams, on `STREAMS` connections at a time."""
        users = [f"user-{number % STREAMS}" for number in range(STREAMS * TURNS)]
        load = LoadRequest(
            web.port,
            [body(AGENT, user) for user in users],
            connections=STREAMS,
            tokens=TOKENS,
            spread_seconds=0.2,
        )
        outcome = stage.sample(web, load).outcome
        self.count += len(outcome.firsts)
        self.errors += outcome.errors
        self.first_error = self.first_error or outcome.first_error
        self.gaps += outcome.gaps

    def rows(self, when: str) -> list[Row]:
        stalls = sum(gap > STALL_MS for gap in self.gaps)
        longest = max(self.gaps, default=0.0)
        p99 = statistics.quantiles(self.gaps, n=100)[98] if self.gaps else 0.0
        return [
            Row(f"streams read {when}", self.count, note=f"{STREAMS} at a time"),
            Row(f"streams broken {when}", self.errors, "", 0, note=self.first_error),
            Row(
                f"gap between tokens {when}, p99",
                *(p99, "ms"),
                digits=1,
                note=f"longest {longest:.0f}; {stalls} of {len(self.gaps)} over "
                f"{STALL_MS:.0f} ms",
            ),
        ]


def main(arguments: list[str]) -> None:
    argparse.ArgumentParser(
        prog="python -m bench slow-clients", description=__doc__
    ).parse_args(arguments)
    weather = MachineLoad()
    with ServerProcesses(["reply", AGENT]) as stage, stage.web("project", []) as web:
        stage.wait_for(web, body("reply", "warm"))
        before, during = RegularStreams(), RegularStreams()
        before.read(stage, web)
        attack = SlowClients(web.port)
        attacking = threading.Thread(target=attack.run)
        attacking.start()
        while attacking.is_alive():
            during.read(stage, web)
    print(f"{weather.report()}\n")
    print(
        render(
            [
                _gone("half requests", attack.heads_gone, HALF_HEADS, 15),
                _gone("half bodies", attack.bodies_gone, HALF_BODIES, 75),
                *before.rows("before"),
                *during.rows("meanwhile"),
            ]
        )
    )


def _gone(what: str, gone: list[float], count: int, target: float) -> Row:
    if len(gone) < count:
        still_open = f"{count - len(gone)} still open after {GIVE_UP_SECONDS:.0f} s"
        return Row(f"{what} gone", float("inf"), "s", target, note=still_open)
    note = f"{count} of them, the first after {min(gone):.1f} s"
    return Row(f"{what} gone", max(gone), "s", target, digits=1, note=note)
