"""The YAML's `studio:` section: the permissions of the studio."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from config.sections import Config, Section


class StudioConfig(BaseModel):
    """The permissions of the studio."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    allow_commands: bool = Field(
        False,
        description="Whether operators may change the programs that run on this "
        "machine: the commands of `mcp:` servers, and `sidecars:`. If false, these "
        "and this switch can be changed only in the file.",
    )


def locked_settings(studio: StudioConfig) -> Mapping[str, Any]:
    """Return the settings of this section that the studio may not change."""
    return {"allow_commands": studio.allow_commands}


STUDIO: Section[StudioConfig] = Section(
    key="studio",
    shape=StudioConfig,
    default=StudioConfig,
    file_only=locked_settings,
    is_per_machine=True,
    description="permissions of the studio",
)


def may_change_commands(config: Config) -> bool:
    """Return the file's value; `settings.COULISSE_MAY_CHANGE_COMMANDS` names this."""
    return config.get(STUDIO).allow_commands
