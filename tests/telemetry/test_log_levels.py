"""Log levels of single modules: `COULISSE_LOG_LEVEL` and `telemetry.levels`."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from config import live
from config.errors import ConfigInvalid
from config.loading import last_valid_copy, loader
from config.sections import Config
from telemetry.config import TELEMETRY, TelemetryConfig
from telemetry.log_output import log_levels, log_switch

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = live.current_or_none()
    yield
    log_levels.apply({})
    live._current = before


def parse(text: str) -> Config:
    return loader.parse_sections(f"telemetry: {text}".encode(), (TELEMETRY,))


def config(levels: dict[str, str]) -> Config:
    return Config(Path("c.yaml"), {"telemetry": TelemetryConfig(levels=levels)})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("INFO", {})),
        ("warning", ("WARNING", {})),
        ("info,providers=debug", ("INFO", {"providers": "DEBUG"})),
        (" turns.flow = ERROR , debug", ("DEBUG", {"turns.flow": "ERROR"})),
    ],
)
def test_variable_has_levels_of_all_and_of_single_modules(text, expected):
    assert log_levels.parse_variable(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loud", "'loud', which is not a level: use debug, info, warning, error or"),
        ("info,providers=loud", "'loud', which is not a level"),
        ("provders=info", "'provders' is not a module; use a name as in the log"),
        ("=info", "'' is not a module"),
    ],
)
def test_invalid_variable_reports_fix(text, message):
    with pytest.raises(ValueError, match="COULISSE_LOG_LEVEL") as refused:
        log_levels.parse_variable(text)
    assert message in str(refused.value)


def test_yaml_levels_follow_the_configuration():
    logger = logging.getLogger("providers.client")
    live.set_current(config({"providers": "debug", "mcp.client": "info"}))
    assert logger.isEnabledFor(logging.DEBUG)
    assert logging.getLogger("mcp.client").level == logging.INFO
    live.set_current(config({}))
    assert not logger.isEnabledFor(logging.DEBUG)
    # The settings have a level of their own for it.
    assert logging.getLogger("mcp.client").level == logging.CRITICAL


def test_environment_wins_over_the_yaml(settings):
    settings.COULISSE_LOG_LEVELS = {"providers": "ERROR"}
    live.set_current(config({"providers": "debug", "turns": "debug"}))
    assert logging.getLogger("providers").level != logging.DEBUG
    assert logging.getLogger("turns").level == logging.DEBUG


def test_process_without_config_uses_levels_of_the_last_valid_copy(settings, tmp_path):
    settings.COULISSE_STATE_DIR = tmp_path
    live._current = None
    last_valid_copy.write_copy(b"telemetry: {levels: {triggers: debug}}")
    assert log_switch.is_enabled(logging.INFO)
    assert logging.getLogger("triggers").level == logging.DEBUG


def test_yaml_levels_are_read():
    assert parse("{levels: {providers: DEBUG}}").get(TELEMETRY).levels == {
        "providers": "debug"
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{provders: debug}", "'provders' is not a module; use a name as in the log"),
        ("{providers: loud}", "'levels.providers' must be one of"),
        ("{providers: 10}", "'levels.providers' must be one of"),
        ("debug", "'levels'"),
    ],
)
def test_invalid_yaml_levels_report_fix(text, message, tmp_path):
    content = (ROOT / "examples/deployment/local.yaml").read_text()
    with pytest.raises(ConfigInvalid) as refused:
        loader.parse_config(
            f"{content}\ntelemetry: {{levels: {text}}}\n".encode(), tmp_path / "c.yaml"
        )
    [problem] = refused.value.problems
    assert message in problem.message


PROCESS = """
import logging.config
from django.conf import settings
logging.config.dictConfig(settings.LOGGING)
logging.getLogger("providers.client").debug("attempt")
logging.getLogger("turns.flow").info("turn")
logging.getLogger("celery.worker").info("message")
"""


def run_process(level: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "COULISSE_LOG_LEVEL": level,
        "DJANGO_SETTINGS_MODULE": "coulisse_site.settings",
    }
    return subprocess.run(
        [sys.executable, "-c", PROCESS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_process_logs_at_the_levels_of_the_variable():
    ran = run_process("warning,providers=debug,celery=info")
    assert [line.split(" ", 2)[2] for line in ran.stderr.splitlines()] == [
        "DEBUG providers.client attempt",
        "INFO celery.worker message",
    ]


def test_process_with_invalid_variable_exits_with_the_fix():
    ran = run_process("info,provders=debug")
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == (
        "COULISSE_LOG_LEVEL: 'provders' is not a module; use a name as in the log, "
        "such as providers or turns.flow; did you mean 'providers'?"
    )
