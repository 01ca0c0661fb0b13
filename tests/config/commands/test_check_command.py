import pytest
from django.core.management import CommandError, call_command
from django.core.management.base import SystemCheckError

from access.users import user_namespace
from config import checks
from tests.config.conftest import COOK


@pytest.fixture(autouse=True)
def _no_database(monkeypatch):
    """What the check says of users' ids is tested where they are derived."""
    monkeypatch.setattr(user_namespace, "inspect", user_namespace.NamespaceStatus)


def test_check_prints_ok_and_counts(file, capsys):
    file.write_text(COOK)
    call_command("check")
    output = capsys.readouterr()
    assert output.out == (
        "ok — coulisse.yaml (0 agents, 0 judges, 0 experiments, 0 providers)\n"
    )
    assert output.err == ""


@pytest.mark.usefixtures("real_sections")
def test_check_counts_agents_and_providers(file, capsys, monkeypatch):
    file.write_text(
        "providers: {local: {kind: local}}\n"
        "agents: [{name: a, provider: local, model: smollm2-135m}]\n"
    )
    call_command("check")
    assert "(1 agents, 0 judges, 0 experiments, 1 providers)" in capsys.readouterr().out


@pytest.mark.usefixtures("real_sections")
def test_check_counts_optional_sections(file, capsys):
    file.write_text(
        "providers: {local: {kind: local}}\n"
        "agents: [{name: a, provider: local, model: smollm2-135m}]\n"
        "mcp: {files: {transport: stdio, command: sh}}\n"
        "triggers:\n"
        "  - {name: up, type: boot, agent: a, prompt: Hello.}\n"
        "  - {name: down, type: cron, schedule: 0 9 * * *, agent: a, prompt: Bye.}\n"
        "sidecars: [{name: bridge, command: 'true'}]\n"
        "smoke_tests:\n"
        "  - name: t\n"
        "    target: a\n"
        "    persona: {provider: local, model: smollm2-135m, preamble: Hm}\n"
    )
    call_command("check")
    assert capsys.readouterr().out == (
        "ok — coulisse.yaml (1 agents, 0 judges, 0 experiments, 1 providers), "
        "1 MCP servers, 2 triggers, 1 sidecars, 1 smoke tests\n"
    )


def test_check_shows_the_path_as_given(file, capsys):
    (file.parent / "mine.yaml").write_text(COOK)
    call_command("check", config="./mine.yaml")
    assert capsys.readouterr().out.startswith("ok — ./mine.yaml (")


def test_check_fails_with_every_problem(file):
    file.write_text("cooks: [{name: ann, boss: zoe}]\nservr: 1\n")
    with pytest.raises(SystemCheckError) as caught:
        call_command("check")
    assert "coulisse.yaml:1:21: (coulisse.E901) cook 'ann' obeys" in str(caught.value)
    assert "coulisse.yaml:2:1: (coulisse.E012) 'servr'" in str(caught.value)


def test_check_fails_without_a_file(file):
    with pytest.raises(CommandError, match="the file does not exist"):
        call_command("check")


def test_check_fails_for_a_missing_named_file(file):
    file.write_text(COOK)
    with pytest.raises(CommandError, match=r"no\.yaml: the file does not exist"):
        call_command("check", config="no.yaml")


def test_other_commands_run_without_a_file(file):
    assert checks.check_config() == []


def test_config_problems_are_system_checks(file):
    file.write_text("cooks: []\ncook: 1\n")
    (found,) = checks.check_config()
    assert found.id == "coulisse.E012"
    assert found.is_serious()
