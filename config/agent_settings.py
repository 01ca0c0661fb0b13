"""What features may know of agents without importing `agents`."""

from collections.abc import Mapping
from typing import Any, Protocol

from config.sections import SectionView


class MemoryOverrides(Protocol):
    """What an agent sets of `memory:` for itself."""

    @property
    def is_on(self) -> bool | None:
        """Whether it has a memory; None is as for all."""

    @property
    def user_state_fields(self) -> Mapping[str, Any]:
        """Fields of `memory.user_state` it sets."""

    @property
    def memory_fields(self) -> Mapping[str, Any]:
        """Fields of `memory` it sets."""


class AgentSettings(Protocol):
    """An agent: its model, and its memory."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def memory(self) -> MemoryOverrides | None: ...


AGENT_SETTINGS: SectionView[Mapping[str, AgentSettings]] = SectionView(
    "agents", default=dict
)
"""The agents by their names; `agents.config.AGENTS` is the section."""
