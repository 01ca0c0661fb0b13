"""`deploy/health`, the health check of the image."""

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from django.conf import settings

DOCKERFILE = (settings.BASE_DIR / "Dockerfile").read_text().replace("\\\n", " ")


class Handler(BaseHTTPRequestHandler):
    """Answers as `/health/ready` does."""

    protocol_version = "HTTP/1.1"
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/health/ready" else 404)
        self.end_headers()
        self.wfile.write(b'{"status":"unavailable"}')

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def port(monkeypatch) -> Iterator[int]:
    monkeypatch.setattr(Handler, "status", 200)
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server.server_port
        server.shutdown()
        serving.join()


def check(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command of the Dockerfile in the directory of a server."""
    line = next(
        line for line in DOCKERFILE.splitlines() if line.startswith("HEALTHCHECK")
    )
    python, *words = json.loads(line.partition(" CMD ")[2])
    assert python == "python"
    words = [word.replace("/app", str(settings.BASE_DIR)) for word in words]
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def write_record(folder: Path, port: int) -> None:
    folder.mkdir()
    record = {"config": "/a/coulisse.yaml", "url": f"http://localhost:{port}"}
    (folder / "processes.json").write_text(json.dumps(record, indent=1))


@pytest.mark.parametrize("variables", [{}, {"COULISSE_STATE_DIR": ".coulisse"}])
def test_check_succeeds_while_the_server_is_ready(tmp_path, port, variables) -> None:
    write_record(tmp_path / ".coulisse", port)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = check(tmp_path, **variables)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    # 0.025 s here; with Django it would be more than a second.
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert seconds < 0.25


def test_check_fails_with_the_reason(tmp_path, port) -> None:
    nothing = check(tmp_path)
    assert nothing.returncode == 1
    assert "no server runs" in nothing.stderr

    write_record(tmp_path / ".coulisse", port)
    Handler.status = 503
    unready = check(tmp_path)
    assert (unready.returncode, unready.stderr) == (1, '{"status":"unavailable"}\n')

    write_record(tmp_path / "other", 1)
    refused = check(tmp_path, COULISSE_STATE_DIR="other")
    assert refused.returncode == 1
    assert "refused" in refused.stderr
