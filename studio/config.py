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
        description="Whether operators may change what runs on this machine: the "
        "commands of `mcp:` servers, and `sidecars:`. Without it these, and this "
        "switch, are changed in the file alone.",
    )


def locked_settings(studio: StudioConfig) -> Mapping[str, Any]:
    """Return the settings of this section that the studio may not change."""
    return {"allow_commands": studio.allow_commands}


STUDIO: Section[StudioConfig] = Section(
    key="studio",
    shape=StudioConfig,
    default=StudioConfig,
    file_only=locked_settings,
    description="what may be done in the browser",
)


def may_change_commands(config: Config) -> bool:
    """Return the file's value; `settings.COULISSE_MAY_CHANGE_COMMANDS` names this."""
    return config.get(STUDIO).allow_commands
