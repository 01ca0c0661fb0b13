"""The local model, if its packages are installed."""

import importlib.util
import json
import os
import signal
import socket
import urllib.request
from urllib.parse import urlsplit

import pytest

from processes.server import health_probe
from processes.server.server_plan import LOCAL_PACKAGES
from tests.processes.conftest import TIMEOUT_SECONDS, Project, end, until

YAML = """
server: {{bind: 127.0.0.1, port: {port}}}
providers: {{local: {{kind: local}}}}
agents: [{{name: assistant, provider: local, model: smollm2-135m}}]
"""

pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, LOCAL_PACKAGES)),
    reason="requirements-local.txt is not installed",
)


def test_local_model_keeps_its_port_while_restarting(project: Project) -> None:
    project.config.write_text(YAML.format(port=project.port))
    process = project.serve()
    url = urlsplit(project.run_record.local_model_url)
    killed = project.run_record.children[-1].pid
    os.kill(killed, signal.SIGKILL)
    until(lambda: project.run_record.children[-1].state == "waiting")
    with pytest.raises(OSError, match="in use"), socket.socket() as other:
        other.bind((url.hostname, url.port))
    until(lambda: health_probe.is_answering(f"http://{url.netloc}/health"))
    end(process)


def test_local_model_answers_once_the_server_serves(project: Project) -> None:
    project.config.write_text(YAML.format(port=project.port))
    process = project.serve()
    url = project.run_record.local_model_url
    question = {
        "model": "smollm2-135m",
        "messages": [{"role": "user", "content": "Name a colour."}],
        "max_tokens": 8,
    }
    request = urllib.request.Request(
        f"{url}/chat/completions",
        json.dumps(question).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        reply = json.load(response)
    assert reply["choices"][0]["message"]["content"]
    assert f"Model      on this machine, at {url}" in end(process)
    assert process.returncode == 0
    assert project.processes() == []
