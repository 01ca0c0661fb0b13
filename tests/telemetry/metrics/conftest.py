"""A recorder with files of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import values

from telemetry.metrics.process_files import ProcessFiles
from telemetry.metrics.recorder import Recorder


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "metrics"


@pytest.fixture
def recorder(directory: Path, monkeypatch) -> Iterator[Recorder]:
    monkeypatch.setattr(values, "ValueClass", values.ValueClass)
    recorder = Recorder(ProcessFiles(directory, "web"))
    yield recorder
    recorder.close()
