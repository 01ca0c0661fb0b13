"""The menu, and the item of the current page."""

import re

import pytest

from studio.base.navigation import find_menu_item

MARKED = re.compile(r'<a href="([^"]+)"[^>]* aria-current="(page|true)"')


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/admin/", "Home"),
        ("/admin/agents", "Agents"),
        ("/admin/agents/a/b/edit", "Agents"),
        ("/admin/agentsmith", None),
        ("/admin/auth", "Settings"),
        ("/admin/config", "coulisse.yaml"),
        ("/admin/mcp/github", "MCP"),
        ("/admin/facts", "Memory"),
        ("/admin/memory/settings", "Settings"),
        ("/admin/providers/openai", "Settings"),
        ("/admin/settings/limits", "Settings"),
        ("/admin/tokens/4f3c91d2", "Tokens"),
        ("/admin/turns", "Turns"),
    ],
)
def test_page_belongs_to_one_menu_item(path, title):
    place = find_menu_item(path)
    assert (place and place[1].title) == title


@pytest.mark.database
def test_menu_marks_the_current_page(browser):
    menu = MARKED.findall(browser.get("/admin/agents").text)
    assert menu == [("/admin/agents", "page")]
    menu = MARKED.findall(browser.get("/admin/providers").text)
    assert menu == [("/admin/settings", "true")]
