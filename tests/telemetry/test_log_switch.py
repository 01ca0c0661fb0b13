"""`telemetry.fmt.enabled` switches the log of every running process."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from logging.config import DictConfigurator
from pathlib import Path

import pytest
from django.conf import settings as django_settings

from config import live
from config.loading import last_valid_copy
from config.sections import Config
from telemetry.config import FmtConfig, TelemetryConfig

ROOT = Path(__file__).resolve().parents[2]

OFF = b"telemetry: {fmt: {enabled: false}}"


@pytest.fixture
def output() -> Iterator[StringIO]:
    """The output of the log handler in the settings."""
    configured = DictConfigurator(django_settings.LOGGING)
    output = StringIO()
    logger = logging.getLogger("test.of.the.log")
    logger.propagate = False
    handler = logging.StreamHandler(output)
    switch = configured.configure_filter(configured.config["filters"]["switch"])
    assert configured.config["handlers"]["stderr"]["filters"] == ["switch"]
    handler.addFilter(switch)
    logger.addHandler(handler)
    yield output
    logger.removeHandler(handler)


@pytest.fixture
def apply() -> Iterator[Callable[[Config | None], None]]:
    """Apply a configuration until the test ends."""
    before = live._current
    yield live.set_current
    live.set_current(before)


def config(*, enabled: bool) -> Config:
    telemetry = TelemetryConfig(fmt=FmtConfig(enabled=enabled))
    return Config(Path("coulisse.yaml"), {"telemetry": telemetry})


def log_once(level: int = logging.WARNING) -> None:
    logging.getLogger("test.of.the.log").log(level, "said")


def test_log_is_on_by_default(output, apply):
    apply(Config(Path("coulisse.yaml"), {}))
    log_once()
    assert output.getvalue() == "said\n"


def test_log_is_switched_at_runtime(output, apply):
    apply(config(enabled=False))
    log_once(logging.ERROR)
    assert output.getvalue() == ""
    apply(config(enabled=True))
    log_once()
    assert output.getvalue() == "said\n"


def test_critical_messages_are_always_logged(output, apply):
    apply(config(enabled=False))
    log_once(logging.CRITICAL)
    assert output.getvalue() == "said\n"


@pytest.fixture
def state(tmp_path, settings, apply) -> Path:
    """The state directory of a process without a loaded configuration."""
    settings.COULISSE_STATE_DIR = tmp_path
    apply(None)
    return tmp_path


@pytest.mark.usefixtures("state")
def test_process_without_config_uses_the_last_valid_copy(output):
    last_valid_copy.write_copy(OFF)
    log_once()
    assert output.getvalue() == ""
    last_valid_copy.write_copy(b"telemetry: {fmt: {enabled: true}}")
    log_once()
    assert output.getvalue() == "said\n"


@pytest.mark.usefixtures("state")
def test_early_errors_are_logged_despite_the_switch(output):
    last_valid_copy.write_copy(OFF)
    log_once(logging.ERROR)
    assert output.getvalue() == "said\n"


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("content", [None, b"", b"{", b"agents: []\nvars: {a: b}"])
def test_log_is_on_without_a_readable_copy(output, content):
    if content is not None:
        last_valid_copy.write_copy(content)
    log_once()
    assert output.getvalue() == "said\n"


@pytest.mark.usefixtures("state")
def test_switch_may_be_an_environment_variable(output, monkeypatch):
    monkeypatch.setenv("LOG", "false")
    last_valid_copy.write_copy(b"telemetry: {fmt: {enabled: '${LOG:-true}'}}")
    log_once()
    assert output.getvalue() == ""


PROCESS = """
import logging.config, sys
from django.conf import settings
logging.config.dictConfig(settings.LOGGING)
assert "pydantic" not in sys.modules, "a process that is silent loads it for nothing"
logging.getLogger("processes.beat").warning("waits")
logging.getLogger("processes.beat").critical("ends")
"""


def test_separate_process_is_silent(tmp_path):
    state = tmp_path / ".coulisse"
    state.mkdir()
    (state / last_valid_copy.FILE_NAME).write_bytes(OFF)
    environment = {
        **os.environ,
        "COULISSE_CONFIG": str(tmp_path / "coulisse.yaml"),
        "DJANGO_SETTINGS_MODULE": "coulisse_site.settings",
    }
    ran = subprocess.run(
        [sys.executable, "-c", PROCESS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr.endswith("ends\n")
    assert "waits" not in ran.stderr
