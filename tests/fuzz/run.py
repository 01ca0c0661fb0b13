"""One run: each mode in turn, with a share of the time for each kind of request."""

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

from gateway.api import api
from studio.openapi.document import build_document
from tests.fuzz import corpus, generated_requests, routes, seeds
from tests.fuzz.attack import Attack, Counts, Finding
from tests.fuzz.liveness_probe import LivenessProbe
from tests.fuzz.modes import MODES, Mode
from tests.fuzz.raw_requests import Request, send
from tests.fuzz.server import Server, ServerLost

RESERVED_SECONDS = 6.0
"""Time of a mode for starting, filling and stopping its server."""
LARGE = ("/v1/chat/completions", "/admin/agents/check")
LARGE_BYTES = 1_900_000
WORKERS = 8
"""Requests after which each thread of the server has handled one."""
ANONYMOUS_INTERVAL = 8
"""Every so many-th request has no credentials."""


class Run:
    """A run and its findings."""

    def __init__(
        self, seed: int, deadline: float, modes: list[str], excluded: list[str]
    ) -> None:
        self.seed = seed
        self._excluded = excluded
        self.modes = [mode for mode in MODES if not modes or mode.name in modes]
        self.figures = Counts()
        self.findings: list[Finding] = []
        self.unreported = 0
        self.problems: list[str] = []
        """Errors that prevented an attack."""
        self.growth: dict[str, int] = {}
        self.port = 0
        self.started_at = time.monotonic()
        self._deadline = deadline
        self._v1 = _plain(api.get_openapi_schema(path_prefix="/v1/"))
        self._studio = _plain(build_document())

    def attack(self) -> None:
        """Attack a server in each mode."""
        for number, mode in enumerate(self.modes):
            shares = sum(each.share for each in self.modes[number:])
            seconds = (self._deadline - time.monotonic()) * mode.share / shares
            try:
                self._attack(mode, time.monotonic() + seconds - RESERVED_SECONDS)
            except ServerLost as exc:
                self.problems.append(f"{mode.name}: {exc}")

    def _attack(self, mode: Mode, deadline: float) -> None:
        with Server(mode) as server, LivenessProbe(server.port) as probe:
            self.port = server.port
            mode = seeds.with_token(mode, server.url)
            names = seeds.fill_server(mode, server.url)
            self._warm_up(mode, server)
            attack = Attack(server, probe, self.figures)
            try:
                for phase, share, requests in self._phases(mode, names):
                    seconds = deadline - time.monotonic()
                    end = time.monotonic() + seconds * share
                    attack.send_all(phase, self._add_credentials(mode, requests), end)
                    server.restore()
            finally:
                self.growth[mode.name] = attack.max_growth
                self.findings += attack.findings
                self.unreported += attack.unreported

    def _phases(
        self, mode: Mode, names: dict[str, str]
    ) -> Iterator[tuple[str, float, Iterable[Request]]]:
        attacks = list(corpus.attacks(mode))
        guesses = [each for each in attacks if each.name == corpus.GUESS]
        yield (
            "known attacks",
            0.6,
            (each for each in attacks if each not in guesses),
        )
        v1 = generated_requests.Generator(self._v1, self.seed, mode.name)
        yield "generated, /v1", 0.35, v1.requests()
        studio = generated_requests.Generator(self._studio, self.seed, mode.name)
        yield "generated, studio", 0.5, studio.requests()
        generator = routes.Generator(self._studio, names, self.seed)
        yield "each route of the studio", 0.95, generator.requests()
        yield "guessed passwords", 1.0, guesses

    def _add_credentials(
        self, mode: Mode, requests: Iterable[Request]
    ) -> Iterator[Request]:
        for number, request in enumerate(requests):
            if any(text in request.name for text in self._excluded):
                continue
            if number % ANONYMOUS_INTERVAL == ANONYMOUS_INTERVAL - 1:
                yield request
            else:
                yield request.with_headers(mode.headers(request.target))

    def _warm_up(self, mode: Mode, server: Server) -> None:
        """Request all pages, and send large bodies: caches must not count as leaks."""
        for path in routes.paths():
            if "{" in path:
                continue
            for accept in ("application/json", "text/html"):
                page = Request.build("", "GET", path, headers=[("Accept", accept)])
                send(page.with_headers(mode.studio), server.port)
        for path in LARGE:
            body = b'{"a": "%s"}' % (b"a" * LARGE_BYTES)
            kind = [("Content-Type", "application/json")]
            large = Request.build("", "POST", path, headers=kind, body=body)
            for _ in range(WORKERS):
                send(large.with_headers(mode.headers(path)), server.port)
        chat = corpus.chat(
            "",
            messages=corpus.user_messages("a " * (LARGE_BYTES // 2)),
            metadata=corpus.INCOGNITO,
        )
        for _ in range(WORKERS):
            send(chat.with_headers(mode.headers(chat.target)), server.port)


def _plain(document: Any) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(document, default=str))
    return plain
