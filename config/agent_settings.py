"""The agent settings that features may read without importing `agents`."""

from collections.abc import Mapping
from typing import Any, Protocol

from config.sections import SectionView


class MemoryOverrides(Protocol):
    """An agent's own values for `memory:`."""

    @property
    def is_on(self) -> bool | None:
        """Whether the agent has memory; None inherits the global setting."""

    @property
    def user_state_fields(self) -> Mapping[str, Any]:
        """The fields of `memory.user_state` that the agent sets."""

    @property
    def memory_fields(self) -> Mapping[str, Any]:
        """The fields of `memory` that the agent sets."""


class AgentSettings(Protocol):
    """An agent's model and memory settings, and whether it has memory tools."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def memory(self) -> MemoryOverrides | None: ...

    @property
    def memory_tools(self) -> bool: ...


AGENT_SETTINGS: SectionView[Mapping[str, AgentSettings]] = SectionView(
    "agents", default=dict
)
"""The agents by name; `agents.config.AGENTS` is the section."""
