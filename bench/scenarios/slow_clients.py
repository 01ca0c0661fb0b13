"""Slow clients together with regular ones: `python -m bench slow-clients`.

300 clients send half of the headers and 40 half of a body, all at once. Some send
nothing more, some a little each second, and some bodies arrive just fast enough.
Meanwhile 64 streams are read. The figures are the time until each slow client is
disconnected, and the effect on the streams. It takes about a minute and a half.
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
"""Streams per connection in one load."""
TIMEOUT_SECONDS = 140.0
STALL_MS = 100.0
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HALF_BODY = HEAD + b"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{"
HEAD_PIECES = (b"", b"X: a\r\n")
BODY_PIECES = (b"", b" ", b" " * 2048)
"""Data that is sent each second; the last is above the minimum rate."""


@dataclass
class SlowClients:
    """The slow clients, in a thread with an event loop of its own."""

    port: int
    head_seconds: list[float] = field(default_factory=list)
    """Seconds until each client was disconnected."""
    body_seconds: list[float] = field(default_factory=list)

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        attackers = [
            self._attack(HEAD, HEAD_PIECES[number % 2], self.head_seconds)
            for number in range(HALF_HEADS)
        ]
        attackers += [
            self._attack(HALF_BODY, BODY_PIECES[number % 3], self.body_seconds)
            for number in range(HALF_BODIES)
        ]
        await asyncio.gather(*attackers)

    async def _attack(self, sent: bytes, piece: bytes, seconds: list[float]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        started_at = time.monotonic()
        writer.write(sent)
        sending = asyncio.create_task(_send_slowly(writer, piece))
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await reader.read()
        except TimeoutError:
            pass
        except ConnectionError:
            seconds.append(time.monotonic() - started_at)
        else:
            seconds.append(time.monotonic() - started_at)
        sending.cancel()
        writer.close()


async def _send_slowly(writer: asyncio.StreamWriter, piece: bytes) -> None:
    while piece:
        await asyncio.sleep(1)
        writer.write(piece)


@dataclass
class RegularStreams:
    """The streams of regular clients."""

    count: int = 0
    errors: int = 0
    first_error: str = ""
    gaps: list[float] = field(default_factory=list)

    def read(self, processes: ServerProcesses, web: MeasuredProcess) -> None:
        """Read streams, `STREAMS` at a time."""
        users = [f"user-{number % STREAMS}" for number in range(STREAMS * TURNS)]
        load = LoadRequest(
            web.port,
            [body(AGENT, user) for user in users],
            connections=STREAMS,
            tokens=TOKENS,
            spread_seconds=0.2,
        )
        outcome = processes.sample(web, load).outcome
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
                p99,
                "ms",
                digits=1,
                note=f"longest {longest:.0f}; {stalls} of {len(self.gaps)} over "
                f"{STALL_MS:.0f} ms",
            ),
        ]


def main(arguments: list[str]) -> None:
    argparse.ArgumentParser(
        prog="python -m bench slow-clients", description=__doc__
    ).parse_args(arguments)
    machine_load = MachineLoad()
    with (
        ServerProcesses(["reply", AGENT]) as processes,
        processes.web("project", []) as web,
    ):
        processes.wait_for(web, body("reply", "warm"))
        before, during = RegularStreams(), RegularStreams()
        before.read(processes, web)
        attack = SlowClients(web.port)
        thread = threading.Thread(target=attack.run)
        thread.start()
        while thread.is_alive():
            during.read(processes, web)
    print(f"{machine_load.report()}\n")
    print(
        render(
            [
                _disconnect_row("half requests", attack.head_seconds, HALF_HEADS, 15),
                _disconnect_row("half bodies", attack.body_seconds, HALF_BODIES, 75),
                *before.rows("before"),
                *during.rows("meanwhile"),
            ]
        )
    )


def _disconnect_row(name: str, seconds: list[float], count: int, target: float) -> Row:
    if len(seconds) < count:
        still_open = f"{count - len(seconds)} still open after {TIMEOUT_SECONDS:.0f} s"
        return Row(f"{name} disconnected", float("inf"), "s", target, note=still_open)
    note = f"{count} of them, the first after {min(seconds):.1f} s"
    return Row(f"{name} disconnected", max(seconds), "s", target, digits=1, note=note)
