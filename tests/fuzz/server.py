"""A real server in its own directory, in one of the modes."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import psutil

from processes.server import listening_socket
from processes.supervision import run_state
from testing.scripted_provider import FakeProvider
from testing.wires import ScriptedAnswer
from tests.fuzz.modes import CONFIG, Mode

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
STOP_SECONDS = 15.0
MAX_STARTS = 5


class ServerLost(Exception):
    """The server is not running."""


class Server:
    """`manage.py start --foreground` with one web process and a scripted provider."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            directory = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="coulisse-fuzz-")
            )
            self.root = Path(directory)
            provider = stack.enter_context(FakeProvider())
            provider.default = ScriptedAnswer(("Hello", " there."))
            self._output = stack.enter_context((self.root / "output.log").open("wb"))
            self._serve(provider.root_url)
            stack.callback(self._stop)
            self._stack = stack.pop_all()
        return self

    def _serve(self, provider_url: str) -> None:
        for attempt in range(1, MAX_STARTS + 1):
            self._write_config(provider_url)
            self._process = self._start()
            try:
                self._wait_until_serving()
                break
            except ServerLost:
                self._stop()
                # Another program may have taken the port meanwhile.
                if attempt == MAX_STARTS or "already in use" not in self.log():
                    raise

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _write_config(self, provider_url: str) -> None:
        self.port = listening_socket.find_free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._config = CONFIG.format(
            port=self.port, provider=provider_url, auth=self.mode.auth
        )
        self.restore()

    def restore(self) -> None:
        """Write the configuration again, if an attack on the studio changed it."""
        path = self.root / "coulisse.yaml"
        if not path.exists() or path.read_text() != self._config:
            path.write_text(self._config)

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("DATABASE_URL", "REDIS_URL")
            and not name.startswith("COULISSE_")
        }
        environment["COULISSE_PROCESSES"] = "web"
        return subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), "start", "--foreground"],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            # Its own group, so that Ctrl-C ends the run, which then stops the server.
            start_new_session=True,
        )

    def _wait_until_serving(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            run = self._run_record()
            if run is not None and run.is_serving:
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ServerLost(f"the server did not start:\n{self.log()}")
            time.sleep(0.05)

    def _run_record(self) -> run_state.RunRecord | None:
        return run_state.read_record(self.root / ".coulisse" / "processes.json")

    def _stop(self) -> None:
        children = self._children()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for process in psutil.wait_procs(children, timeout=2)[1]:
            process.kill()

    def _children(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def web_process(self) -> psutil.Process:
        """Return the process that answers requests; raises `ServerLost`."""
        run = self._run_record()
        for child in run.children if run is not None else ():
            if child.name.startswith("web") and child.pid is not None:
                return psutil.Process(child.pid)
        raise ServerLost(f"there is no web process:\n{self.log()}")

    def restarts(self) -> int:
        """Return the number of restarts of the web process."""
        run = self._run_record()
        children = run.children if run is not None else ()
        return sum(child.restarts for child in children if child.name.startswith("web"))

    def log(self, characters: int = 6000) -> str:
        """Return the end of the server's output."""
        files = (self.root / "output.log", self.root / ".coulisse" / "coulisse.log")
        text = "".join(f.read_text(errors="replace") for f in files if f.exists())
        return text[-characters:]

    def memory_bytes(self) -> int:
        """Return the resident memory of the web process."""
        return self.web_process().memory_info().rss
