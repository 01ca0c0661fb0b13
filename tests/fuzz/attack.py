"""Sends requests in sequence, and detects errors, freezes, leaks and crashes."""

import json
import time
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.fuzz.liveness_probe import FREEZE_SECONDS, LivenessProbe
from tests.fuzz.raw_requests import RawResponse, Request, send
from tests.fuzz.server import Server

GROWTH_BYTES = 50 * 1024 * 1024
EXPECTED = {
    # Documented errors that ask the client to retry.
    (503, "password_checks_busy"),
    (503, "schema_checks_busy"),
    (503, "too_many_connections"),
    # The scripted model ignores schemas.
    (502, "response_format_mismatch"),
    # The scripted provider answers every address as a chat, so also moderations.
    (502, "provider_broken_reply"),
}
REPLAYS = 3
"""A freeze counts if it happens each time that the request is sent alone."""
QUIET_SECONDS = 0.3
MAX_GROWTH_STEPS = 3
"""Operations that a growth report names: those after which memory grew most."""
MAX_PER_KIND = 3
"""Reported findings of one kind and name; the rest is counted."""


@dataclass(frozen=True)
class Finding:
    """A problem that a request caused."""

    kind: str
    mode: str
    request: Request
    details: str


@dataclass
class Counts:
    """Statistics of the sent requests."""

    requests: Counter[str] = field(default_factory=Counter)
    """Number of requests by phase."""
    operations: dict[str, set[str]] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    suspects: int = 0
    """Freezes that did not recur when their requests were sent alone."""


class Attack:
    """An attack on one server, and its findings."""

    def __init__(self, server: Server, probe: LivenessProbe, figures: Counts) -> None:
        self._server = server
        self._probe = probe
        self._figures = figures
        self._counted: Counter[tuple[str, str]] = Counter()
        self._last: deque[Request] = deque(maxlen=3)
        self._steps: Counter[str] = Counter()
        self._examples: dict[str, Request] = {}
        self.findings: list[Finding] = []
        self.pid = server.web_process().pid
        self._base = self._bytes = server.memory_bytes()
        self.max_growth = 0
        """Maximum growth in one phase, in bytes: caches fill once, leaks go on."""

    def send_all(
        self, phase: str, requests: Iterable[Request], deadline: float
    ) -> bool:
        """Send requests until the deadline; return whether all were sent."""
        started_at = time.monotonic()
        self._base = self._bytes = self._server.memory_bytes()
        self._steps.clear()
        try:
            for request in requests:
                if time.monotonic() > deadline:
                    return False
                self._send(phase, request)
        finally:
            self._figures.seconds[phase] += round(time.monotonic() - started_at)
        return True

    def _send(self, phase: str, request: Request) -> None:
        self._figures.requests[phase] += 1
        name = f"{request.method} {request.operation}"
        self._figures.operations.setdefault(phase, set()).add(name)
        self._last.append(request)
        self._probe.longest()
        try:
            response = send(request, self._server.port)
        except OSError as exc:
            # Not sent again, because that would take as long.
            self._add_finding("did not answer", request, repr(exc))
            self._probe.settle()
        else:
            self._check_response(request, response)
        self._check_process(request)

    def _check_response(self, request: Request, response: RawResponse) -> None:
        self._figures.statuses[response.status] += 1
        if self._probe.longest() > FREEZE_SECONDS:
            self._find_freeze()
        if is_error(request, response):
            text = response.body[:300].decode(errors="replace")
            self._add_finding(f"answered {response.status or 'nothing'}", request, text)

    # Freezes.

    def _find_freeze(self) -> None:
        self._probe.settle()
        for request in dict.fromkeys(reversed(self._last)):
            silences = [self._measure_silence(request) for _ in range(REPLAYS)]
            if min(silences) > FREEZE_SECONDS:
                details = ", ".join(f"{silence:.2f} s" for silence in silences)
                self._add_finding("froze /health/live", request, details)
                return
        self._figures.suspects += 1

    def _measure_silence(self, request: Request) -> float:
        """Return the seconds of silence while one request is sent alone."""
        for _ in range(REPLAYS):
            self._probe.settle()
            self._probe.longest()
            time.sleep(QUIET_SECONDS)
            if self._probe.longest() < FREEZE_SECONDS:
                break  # The server is idle.
        with suppress(OSError):
            send(request, self._server.port)
        time.sleep(QUIET_SECONDS)
        return self._probe.longest()

    # Memory and crashes.

    def _check_process(self, request: Request) -> None:
        process = self._server.web_process()
        if process.pid != self.pid:
            self._add_finding("ended the web process", request, self._server.log(1500))
            self.pid = process.pid
            self._base = self._bytes = process.memory_info().rss
            return
        now = process.memory_info().rss
        name = f"{request.method} {request.operation}"
        self._steps[name] += now - self._bytes
        self._examples[name] = request
        self._bytes = now
        self.max_growth = max(self.max_growth, now - self._base)
        if now - self._base > GROWTH_BYTES:
            self._report_growth(now - self._base)
            self._base = now  # Count further growth from here.
            self._steps.clear()

    def _report_growth(self, growth: int) -> None:
        for name, step in self._steps.most_common(MAX_GROWTH_STEPS):
            details = f"{growth >> 20} MiB in total, {step >> 20} MiB with {name}"
            self._add_finding("grew", self._examples[name], details)

    def _add_finding(self, kind: str, request: Request, details: str) -> None:
        self._counted[kind, request.name] += 1
        if self._counted[kind, request.name] <= MAX_PER_KIND:
            self.findings.append(
                Finding(kind, self._server.mode.name, request, details)
            )

    @property
    def unreported(self) -> int:
        """Number of further findings like the reported ones."""
        return sum(max(0, n - MAX_PER_KIND) for n in self._counted.values())


def is_error(request: Request, response: RawResponse) -> bool:
    """Return whether the response is an error of the server."""
    if response.status == 0:
        return not request.may_close
    if response.status < 500:
        return False
    return (response.status, code(response)) not in EXPECTED


def code(response: RawResponse) -> str:
    """Return the code of an error; empty if there is none."""
    try:
        body = json.loads(response.body)
        return str(body["error"]["code"])
    except (ValueError, TypeError, KeyError):
        return ""
