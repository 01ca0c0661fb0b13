"""Sends requests one after another, and finds what the server must never do."""

import json
import time
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.fuzz.server import Server
from tests.fuzz.watch import FREEZE_SECONDS, Watch
from tests.fuzz.wire import Answer, Request, send

GROWTH_BYTES = 50 * 1024 * 1024
EXPECTED = {
    # The documentation promises them: try again in a moment.
    (503, "password_checks_busy"),
    (503, "schema_checks_busy"),
    (503, "too_many_connections"),
    # The scripted model says the same to all, whatever schema is asked for.
    (502, "response_format_mismatch"),
}
REPLAYS = 3
"""A freeze counts that happens each time the request is sent alone."""
QUIET_SECONDS = 0.3
STEPS = 3
"""Operations that are named for a growth: those after which most was held."""
MOST_OF_ONE_KIND = 3
"""Findings that are reported of one kind and name; the rest is counted."""


@dataclass(frozen=True)
class Finding:
    """What a request made the server do."""

    kind: str
    mode: str
    request: Request
    says: str


@dataclass
class Figures:
    """What was sent."""

    requests: Counter[str] = field(default_factory=Counter)
    """By the phase."""
    operations: dict[str, set[str]] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    suspects: int = 0
    """Silences that were not there again when their requests were sent alone."""


class Attack:
    """One server under attack, and what was found."""

    def __init__(self, server: Server, watch: Watch, figures: Figures) -> None:
        self._server = server
        self._watch = watch
        self._figures = figures
        self._counted: Counter[tuple[str, str]] = Counter()
        self._last: deque[Request] = deque(maxlen=3)
        self._steps: Counter[str] = Counter()
        self._examples: dict[str, Request] = {}
        self.findings: list[Finding] = []
        self.pid = server.web_process().pid
        self._base = self._bytes = server.memory_bytes()
        self.most_grown = 0
        """Bytes, in one phase: caches fill in the first, and a leak shows in each."""

    def send_all(self, phase: str, requests: Iterable[Request], until: float) -> bool:
        """Send requests until a time (monotonic); return whether all were sent."""
        begun = time.monotonic()
        self._base = self._bytes = self._server.memory_bytes()
        self._steps.clear()
        try:
            for request in requests:
                if time.monotonic() > until:
                    return False
                self._send(phase, request)
        finally:
            self._figures.seconds[phase] += round(time.monotonic() - begun)
        return True

    def _send(self, phase: str, request: Request) -> None:
        self._figures.requests[phase] += 1
        name = f"{request.method} {request.operation}"
        self._figures.operations.setdefault(phase, set()).add(name)
        self._last.append(request)
        self._watch.longest()
        try:
            answer = send(request, self._server.port)
        except OSError as exc:
            # It is found; sent again, it would only take as long again.
            self._found("did not answer", request, repr(exc))
            self._watch.settle()
        else:
            self._look_at_answer(request, answer)
        self._look_at_process(request)

    def _look_at_answer(self, request: Request, answer: Answer) -> None:
        self._figures.statuses[answer.status] += 1
        if self._watch.longest() > FREEZE_SECONDS:
            self._look_for_a_freeze()
        if is_fault(request, answer):
            said = answer.body[:300].decode(errors="replace")
            self._found(f"answered {answer.status or 'nothing'}", request, said)

    # Freezes.

    def _look_for_a_freeze(self) -> None:
        self._watch.settle()
        for request in dict.fromkeys(reversed(self._last)):
            silences = [self._silence_of(request) for _ in range(REPLAYS)]
            if min(silences) > FREEZE_SECONDS:
                says = ", ".join(f"{silence:.2f} s" for silence in silences)
                self._found("froze /health/live", request, says)
                return
        self._figures.suspects += 1

    def _silence_of(self, request: Request) -> float:
        """Return how long the server was silent for one request, sent alone."""
        for _ in range(REPLAYS):
            self._watch.settle()
            self._watch.longest()
            time.sleep(QUIET_SECONDS)
            if self._watch.longest() < FREEZE_SECONDS:
                break  # Nothing else keeps it busy.
        with suppress(OSError):
            send(request, self._server.port)
        time.sleep(QUIET_SECONDS)
        return self._watch.longest()

    # Growth and death.

    def _look_at_process(self, request: Request) -> None:
        process = self._server.web_process()
        if process.pid != self.pid:
            self._found("ended the web process", request, self._server.log(1500))
            self.pid = process.pid
            self._base = self._bytes = process.memory_info().rss
            return
        now = process.memory_info().rss
        place = f"{request.method} {request.operation}"
        self._steps[place] += now - self._bytes
        self._examples[place] = request
        self._bytes = now
        self.most_grown = max(self.most_grown, now - self._base)
        if now - self._base > GROWTH_BYTES:
            self._report_growth(now - self._base)
            self._base = now  # What is to come counts from here.
            self._steps.clear()

    def _report_growth(self, grown: int) -> None:
        for place, step in self._steps.most_common(STEPS):
            says = f"{grown >> 20} MiB in all, {step >> 20} MiB with {place}"
            self._found("grew", self._examples[place], says)

    def _found(self, kind: str, request: Request, says: str) -> None:
        self._counted[kind, request.name] += 1
        if self._counted[kind, request.name] <= MOST_OF_ONE_KIND:
            self.findings.append(Finding(kind, self._server.mode.name, request, says))

    @property
    def unreported(self) -> int:
        """How many more were found like those that are reported."""
        return sum(max(0, n - MOST_OF_ONE_KIND) for n in self._counted.values())


def is_fault(request: Request, answer: Answer) -> bool:
    """Return whether no request may be answered like this."""
    if answer.status == 0:
        return not request.may_close
    if answer.status < 500:
        return False
    return (answer.status, code(answer)) not in EXPECTED


def code(answer: Answer) -> str:
    """Return the code of an error; "" where there is none."""
    try:
        told = json.loads(answer.body)
        return str(told["error"]["code"])
    except (ValueError, TypeError, KeyError):
        return ""
