"""`migrate` by hand, before the server ever ran."""

from tests.processes.conftest import Project


def test_it_makes_the_database_beside_the_yaml_it_is_given(project: Project) -> None:
    elsewhere = project.root / "b"
    elsewhere.mkdir()
    migrated = project.run("migrate", "-cb/other.yaml", "--verbosity=0")
    assert (migrated.returncode, migrated.stderr) == (0, "")
    made = elsewhere / ".coulisse"
    assert (made / "coulisse-memory.db").exists()
    assert made.stat().st_mode & 0o777 == 0o700
    assert not project.state.root.exists()


def test_it_says_that_it_cannot_write(project: Project) -> None:
    project.state.root.write_text("a file where the directory belongs")
    refused = project.run("migrate")
    assert refused.returncode == 1
    assert refused.stderr.startswith("CommandError: cannot create")
