"""Fixtures of these tests."""

import pytest

from tests.gateway.openai.client_tools.exchange import HOUSE


@pytest.fixture
def server(running, configure, tmp_path):
    folder = tmp_path / "skills/packing"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\ndescription: Packs.\n---\nTake a coat.")
    configure(HOUSE)
    return running
