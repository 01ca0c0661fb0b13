"""The file of the running server."""

import pytest

from tests.studio.configuration.config_file.file_requests import TEXT


@pytest.fixture
def yaml(configure, tmp_path, settings):
    """The path of the file."""
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"
    settings.COULISSE_STATE_DIR.mkdir()
    configure(TEXT)
    return tmp_path / "coulisse.yaml"


@pytest.fixture
def text(yaml):
    return yaml.read_text()
