"""One run: each mode in turn, each kind of request in its share of the time."""

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

from gateway.api import api
from studio.openapi.document import build_document
from tests.fuzz import corpus, generated, routes, seeds
from tests.fuzz.attack import Attack, Figures, Finding
from tests.fuzz.modes import MODES, Mode
from tests.fuzz.server import Server, ServerLost
from tests.fuzz.watch import Watch
from tests.fuzz.wire import Request, send

RESERVED_SECONDS = 6.0
"""Of a mode, for starting, filling and stopping its server."""
LARGE = ("/v1/chat/completions", "/admin/agents/check")
LARGE_BYTES = 1_900_000
WORKERS = 8
"""Requests after which each thread that answers has answered one."""
UNKNOWN_EVERY = 8
"""One in so many requests comes without a credential."""


class Run:
    """What a run does, and what it found."""

    def __init__(
        self, seed: int, until: float, modes: list[str], left_out: list[str]
    ) -> None:
        self.seed = seed
        self._left_out = left_out
        self.modes = [mode for mode in MODES if not modes or mode.name in modes]
        self.figures = Figures()
        self.findings: list[Finding] = []
        self.unreported = 0
        self.troubles: list[str] = []
        """What kept the run from attacking at all."""
        self.grown: dict[str, int] = {}
        self.port = 0
        self.begun = time.monotonic()
        self._until = until
        self._v1 = _plain(api.get_openapi_schema(path_prefix="/v1/"))
        self._studio = _plain(build_document())

    def attack(self) -> None:
        """Attack a server in each mode."""
        for number, mode in enumerate(self.modes):
            left = sum(each.share for each in self.modes[number:])
            seconds = (self._until - time.monotonic()) * mode.share / left
            try:
                self._attack(mode, time.monotonic() + seconds - RESERVED_SECONDS)
            except ServerLost as exc:
                self.troubles.append(f"{mode.name}: {exc}")

    def _attack(self, mode: Mode, until: float) -> None:
        with Server(mode) as server, Watch(server.port) as watch:
            self.port = server.port
            mode = seeds.with_token(mode, server.url)
            known = seeds.plant(mode, server.url)
            self._warm(mode, server)
            attack = Attack(server, watch, self.figures)
            try:
                for phase, share, requests in self._phases(mode, known):
                    left = until - time.monotonic()
                    end = time.monotonic() + left * share
                    attack.send_all(phase, self._known(mode, requests), end)
                    server.restore()
            finally:
                self.grown[mode.name] = attack.most_grown
                self.findings += attack.findings
                self.unreported += attack.unreported

    def _phases(
        self, mode: Mode, known: dict[str, str]
    ) -> Iterator[tuple[str, float, Iterable[Request]]]:
        written = list(corpus.attacks(mode))
        last = [each for each in written if each.name == corpus.GUESS]
        yield "written attacks", 0.6, (each for each in written if each not in last)
        v1 = generated.Generator(self._v1, self.seed, mode.name)
        yield "generated, /v1", 0.35, v1.requests()
        studio = generated.Generator(self._studio, self.seed, mode.name)
        yield "generated, studio", 0.5, studio.requests()
        of_routes = routes.Generator(self._studio, known, self.seed)
        yield "each route of the studio", 0.95, of_routes.requests()
        yield "guessed passwords", 1.0, last

    def _known(self, mode: Mode, requests: Iterable[Request]) -> Iterator[Request]:
        for number, request in enumerate(requests):
            if any(text in request.name for text in self._left_out):
                continue
            if number % UNKNOWN_EVERY == UNKNOWN_EVERY - 1:
                yield request
            else:
                yield request.known_by(mode.headers(request.target))

    def _warm(self, mode: Mode, server: Server) -> None:
        """Ask for each page, and send much: what the first one costs is no growth."""
        for path in routes.paths():
            if "{" in path:
                continue
            for accept in ("application/json", "text/html"):
                page = Request.of("", "GET", path, headers=[("Accept", accept)])
                send(page.known_by(mode.studio), server.port)
        for path in LARGE:
            body = b'{"a": "%s"}' % (b"a" * LARGE_BYTES)
            kind = [("Content-Type", "application/json")]
            large = Request.of("", "POST", path, headers=kind, body=body)
            for _ in range(WORKERS):
                send(large.known_by(mode.headers(path)), server.port)
        talk = corpus.chat(
            "",
            messages=corpus.said("a " * (LARGE_BYTES // 2)),
            metadata=corpus.INCOGNITO,
        )
        for _ in range(WORKERS):
            send(talk.known_by(mode.headers(talk.target)), server.port)


def _plain(document: Any) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(document, default=str))
    return plain
