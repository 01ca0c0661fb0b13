"""The processes that a configuration needs."""

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from config.loading import loader
from processes.errors import AddressTaken, PackagesMissing
from processes.local_model import __main__ as local_model
from processes.local_model import is_needed
from processes.server import cores, listening_socket, server_plan
from processes.server.server_plan import ServerPlan

AGENTS = "agents: [{name: a, provider: p, model: m}]\n"


@pytest.fixture
def plan(tmp_path: Path, settings):
    settings.COULISSE_PROCESSES = frozenset({"web"})

    def plan(text: str) -> ServerPlan:
        path = tmp_path / "coulisse.yaml"
        path.write_text(AGENTS + text)
        return server_plan.plan_server(loader.load_file(path))

    return plan


def test_one_web_process_is_the_default(plan) -> None:
    remote = "providers: {p: {kind: openai, api_key: k}}\n"
    assert process_names(plan(remote)) == ["web-1"]
    assert process_names(plan(remote + "server: {worker_threads: 2}")) == [
        "web-1",
        "web-2",
    ]


@pytest.mark.parametrize(
    ("limit", "count"),
    [
        (None, 3),
        ("max 100000", 3),
        ("250000 100000", 2),
        ("50000 100000", 1),
        ("900000 100000", 3),
    ],
)
def test_automatic_count_of_web_processes_is_that_of_the_cores(
    plan, monkeypatch, tmp_path, limit, count
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 4}, raising=False)
    path = tmp_path / "cpu.max"
    if limit is not None:
        path.write_text(f"{limit}\n")
    monkeypatch.setattr(cores, "CGROUP_LIMIT", path)
    remote = "providers: {p: {kind: openai, api_key: k}}\n"
    assert plan(remote + "server: {worker_threads: auto}").web_count == count


def test_local_provider_starts_the_local_model(plan, monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    server = plan("providers: {p: {kind: local}}")
    web, model = server.children(listening=5, parent_pipe=6, heartbeats=7)
    assert web.program.environment["COULISSE_LOCAL_MODEL_URL"] == server.local_model_url
    assert model.outlives_web
    assert str(server.local_model_port) in model.program.args


def test_background_processes_know_the_local_model_url(
    plan, settings, monkeypatch
) -> None:
    settings.COULISSE_PROCESSES = frozenset({"web", "worker", "beat"})
    settings.COULISSE_OWNS_BROKER = False
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    server = plan("providers: {p: {kind: local}}")
    children = {
        child.name: child.program.environment
        for child in server.children(listening=5, parent_pipe=6, heartbeats=7)
    }
    worker = children["worker"]
    assert worker["COULISSE_LOCAL_MODEL_URL"] == server.local_model_url


def test_web_processes_and_the_worker_stay_on_different_cores(
    plan, settings, monkeypatch
) -> None:
    settings.COULISSE_PROCESSES = frozenset({"web", "worker", "beat"})
    settings.COULISSE_OWNS_BROKER = False
    settings.COULISSE_PIN_CORES = True
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 4}, raising=False)
    text = "providers: {p: {kind: openai, api_key: k}}\nserver: {worker_threads: %d}"

    def cores(web_count: int) -> list[int | None]:
        children = plan(text % web_count).children(
            listening=5, parent_pipe=6, heartbeats=7
        )
        return [child.core for child in children]

    *busy, beat = cores(2)
    assert (set(busy), beat) == ({0, 1, 4}, None)
    # Without a core of its own, the worker uses whichever is idle.
    *webs, worker, beat = cores(3)
    assert (set(webs), worker, beat) == ({0, 1, 4}, None, None)
    settings.COULISSE_PIN_CORES = False
    assert set(cores(2)) == {None}


@pytest.fixture
def machine(monkeypatch, tmp_path) -> Path:
    """A machine without containers; returns the folder of its control groups."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 4}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    monkeypatch.setattr(os, "getpid", lambda: 4321)
    for name in cores.CONTAINER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    groups = tmp_path / "cgroup"
    (groups / "system.slice/coulisse.service").mkdir(parents=True)
    own = tmp_path / "own"
    own.write_text("0::/system.slice/coulisse.service\n")
    monkeypatch.setattr(cores, "CGROUP_LIMIT", groups / "cpu.max")
    monkeypatch.setattr(cores, "OWN_CGROUP", own)
    monkeypatch.setattr(cores, "CONTAINER_FILES", (tmp_path / ".dockerenv",))
    return groups


def test_cores_are_shared_in_containers_and_where_they_are_limited(
    machine: Path, monkeypatch
) -> None:
    limit = machine / "system.slice/coulisse.service/cpu.max"
    limit.write_text("max 100000\n")
    assert cores.owns_cores()

    for file in (machine / "cpu.max", machine.parent / ".dockerenv"):
        file.write_text("max 100000\n")
        assert not cores.owns_cores(), file
        file.unlink()
    limit.write_text("150000 100000\n")
    assert not cores.owns_cores()
    limit.unlink()
    cores.OWN_CGROUP.unlink()
    assert cores.owns_cores()
    for patch in (
        lambda patched: patched.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
        lambda patched: patched.setenv("container", "podman"),
        lambda patched: patched.setattr(os, "getpid", lambda: 1),
        lambda patched: patched.setattr(os, "cpu_count", lambda: 4),
    ):
        with monkeypatch.context() as patched:
            patch(patched)
            assert not cores.owns_cores()
        assert cores.owns_cores()


@pytest.mark.parametrize(
    ("wish", "is_owner", "is_pinned"),
    [
        (None, True, True),
        (None, False, False),
        (True, False, True),
        (False, True, False),
    ],
)
def test_variable_overrides_whether_processes_stay_on_one_core(
    plan, settings, monkeypatch, wish, is_owner, is_pinned
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    monkeypatch.setattr(cores, "owns_cores", lambda: is_owner)
    settings.COULISSE_PIN_CORES = wish
    server = plan("providers: {p: {kind: openai, api_key: k}}")
    [web] = server.children(listening=5, parent_pipe=6, heartbeats=7)
    assert (web.core is not None) is is_pinned


def test_processes_of_a_start_share_an_id(plan, settings) -> None:
    settings.COULISSE_PROCESSES = frozenset({"web", "worker", "beat"})
    settings.COULISSE_OWNS_BROKER = False
    text = "providers: {p: {kind: openai, api_key: k}}"
    one, other = (
        {
            child.program.environment["COULISSE_START"]
            for child in plan(text).children(listening=5, parent_pipe=6, heartbeats=7)
        }
        for _ in range(2)
    )
    assert len(one) == len(other) == 1
    assert one != other


@pytest.mark.parametrize("name", ["beat", "sidecars", "web", "worker"])
def test_process_module_is_importable_before_django_setup(name: str, settings) -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "coulisse_site.settings"}
    argv = [sys.executable, "-c", f"import processes.{name}"]
    done = subprocess.run(
        argv, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_background_processes_do_not_delay_the_start(plan, settings) -> None:
    settings.COULISSE_PROCESSES = frozenset({"web", "worker", "beat"})
    settings.COULISSE_OWNS_BROKER = True
    server = plan("providers: {p: {kind: openai, api_key: k}}")
    web, broker, *jobs = server.children(listening=5, parent_pipe=6, heartbeats=7)
    assert [job.name for job in jobs] == ["worker", "beat"]
    assert web.is_required
    assert not web.follows_web
    assert not any(child.is_required for child in (broker, *jobs))
    assert all(job.follows_web for job in jobs)
    # The broker runs as long as a reply or a job may need it.
    assert (broker.follows_web, broker.outlives_web) == (False, True)
    assert not any(job.outlives_web for job in jobs)


def test_local_provider_with_base_url_starts_no_model(plan) -> None:
    text = "providers: {p: {kind: local, base_url: 'http://127.0.0.1:9/v1'}}"
    assert process_names(plan(text)) == ["web-1"]


@pytest.mark.parametrize(
    ("provider", "code"),
    [
        ("p: {kind: local}", 0),
        ("local:", 0),
        ("p: {kind: openai, api_key: 'kind: local'}", 1),
        ("p: {kind: local, base_url: 'http://127.0.0.1:9/v1'}", 1),
        ("p: {kind: nonsense}", 1),
    ],
)
def test_local_model_needed_exit_code_is_set(
    tmp_path: Path, settings, provider: str, code: int
) -> None:
    settings.COULISSE_CONFIG = tmp_path / "coulisse.yaml"
    name = provider.partition(":")[0]
    settings.COULISSE_CONFIG.write_text(
        f"agents: [{{name: a, provider: {name}, model: m}}]\nproviders:\n  {provider}\n"
    )
    with pytest.raises(SystemExit) as ended:
        is_needed.main()
    assert ended.value.code == code


def test_missing_local_model_error_shows_the_install_command(plan, monkeypatch) -> None:
    found = {"pip": object()}
    monkeypatch.setattr(importlib.util, "find_spec", found.get)
    with pytest.raises(PackagesMissing) as refused:
        plan("providers: {p: {kind: local}}")
    message = refused.value.message
    assert f"'{sys.executable}' -m pip install --no-deps -r" in message
    assert "OPENAI_API_KEY" in message
    assert "init --force" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("host", "reachable", "probed"),
    [
        ("0.0.0.0", "localhost", "127.0.0.1"),
        ("::", "localhost", "127.0.0.1"),
        ("127.0.0.1", "localhost", "localhost"),
        ("192.0.2.1", "192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "[2001:db8::1]", "[2001:db8::1]"),
    ],
)
def test_reachable_and_probe_host_of_an_address(host, reachable, probed) -> None:
    assert listening_socket.reachable_host(host) == reachable
    assert listening_socket.probe_host(host) == probed


def test_foreign_address_is_refused() -> None:
    with pytest.raises(AddressTaken, match=r"server\.bind"):
        listening_socket.open_socket("192.0.2.1", listening_socket.find_free_port())


def test_reserved_port_is_not_given_away() -> None:
    with listening_socket.reserve_port(listening_socket.find_free_port()) as reserved:
        port = reserved.getsockname()[1]
        with pytest.raises(OSError, match="in use"), socket.socket() as other:
            other.bind(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)):
            pass  # Like the local model.


def test_port_taken_meanwhile_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(AddressTaken, match=f"port {port}, chosen for the local"):
            listening_socket.reserve_port(port)


def test_local_model_start_failure_is_reported(monkeypatch) -> None:
    def refuse(parameters: object) -> None:
        raise RuntimeError("Failed to init server")

    monkeypatch.setattr(local_model, "server_settings", lambda host, port, llama: None)
    llama = SimpleNamespace(Server=refuse)
    with pytest.raises(SystemExit, match=r"cannot start at 127\.0\.0\.1:9; see"):
        local_model.start_server("127.0.0.1", 9, llama)


def process_names(plan: ServerPlan) -> list[str]:
    children = plan.children(listening=5, parent_pipe=6, heartbeats=7)
    return [child.name for child in children]
