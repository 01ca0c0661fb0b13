"""Pages of the documentation: examples load, links and commands exist."""

import re
from pathlib import Path

import pytest
from django.core.management import get_commands
from ruamel.yaml import YAML

from config.loading import loader
from tests.docs.pages import BLOCK, LINK, PAGES, all_blocks, blocks, heading_anchors

# Examples.


@pytest.mark.parametrize("text", all_blocks("yaml"))
def test_complete_configurations_load(text, monkeypatch):
    data = YAML(typ="safe", pure=True).load(text) or {}
    if not {"agents", "providers"} <= data.keys():
        return
    for name in re.findall(r"\$\{([A-Z_]+)\}", text):
        monkeypatch.setenv(name, "a-dummy-secret")
    assert loader.parse_config(text.encode(), Path("coulisse.yaml")).values["agents"]


def test_complete_configurations_exist():
    texts = [text for page in PAGES for text in blocks(page, "yaml")]
    assert sum("agents:" in text and "providers:" in text for text in texts) >= 6


@pytest.mark.parametrize("text", all_blocks("python"))
def test_python_examples_compile(text):
    assert compile(text, "example", "exec")


# Links and names.


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_have_existing_targets(page):
    for link in LINK.findall(BLOCK.sub("", page.read_text())):
        path, _, anchor = link.partition("#")
        if path.startswith(("http://", "https://")):
            continue
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in heading_anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_machine_specific_path_is_named(page):
    assert not re.search(r"/(work|root|home|tmp)\b", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_named_commands_exist(page):
    used = re.findall(r"(?m)(?:^|`)coulisse ([a-z][a-z-]+)", page.read_text())
    assert set(used) <= {"help", *get_commands()}
