"""Clients of `/mcp`."""

import pytest

from tests.conftest import CONFIG
from tests.gateway.mcp_calls import BOTH, with_client

EITHER = pytest.mark.parametrize("mode", BOTH)


REMEMBERING = (
    CONFIG.replace("  - name: claude\n", "  - name: claude\n    purpose: Thinks.\n")
    + """
memory:
  user_state:
    embed_with: {provider: hash}
    learn_from: {provider: openai, model: gpt-cheap}
"""
)


AGENTS = ["assistant", "claude", "forgetful", "tuned"]


MEMORY = ["search_memory", "save_memory"]


def tools(server, user=None, mode="auto"):
    """Return the tools for a client, by name."""
    listed = with_client(server, user, lambda client: client.list_tools(), mode=mode)
    return {tool.name: tool for tool in listed.tools}
