"""A server whose state is not beside its YAML."""

from processes.supervision.state_directory import StateDir
from tests.processes.conftest import Project


def test_everything_is_in_the_named_directory(project: Project) -> None:
    project.config.write_text(
        project.config.read_text() + "telemetry: {request_log: {enabled: true}}\n"
    )
    project.state = StateDir(project.root.parent / "volume")
    project.state.root.mkdir()
    project.environment |= {
        "COULISSE_STATE_DIR": str(project.state.root),
        "COULISSE_PROCESSES": "web,worker,beat",
        "DJANGO_SETTINGS_MODULE": "coulisse_site.settings",
    }
    project.root.chmod(0o555)
    try:
        started = project.run("start")
        assert started.returncode == 0, started.stderr
        project.get("/v1/models")
        project.get("/admin/")
        assert "running" in project.run("status", "--ready").stdout
        assert project.run("doctor").returncode == 0
        assert project.run("stop").returncode == 0
        assert [path.name for path in project.root.iterdir()] == ["coulisse.yaml"]
        names = {path.name for path in project.state.root.iterdir()}
        assert names >= {"coulisse-memory.db", "coulisse.log", "broker", "requests.log"}
        project.run("reset", "-y")
        assert not (project.state.root / "coulisse-memory.db").exists()
    finally:
        project.root.chmod(0o755)
