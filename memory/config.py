"""The YAML's `memory:` block."""

from pydantic import BaseModel, ConfigDict, Field, field_validator

from config.sections import Section


class MemoryConfig(BaseModel):
    """What is remembered beyond the conversation itself, which always is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user_state: bool = Field(
        default=False,
        description="Learn facts about each user. Not available in this version: "
        "only `false` is accepted.",
    )

    @field_validator("user_state", mode="before")
    @classmethod
    def refuse_until_built(cls, value: object) -> object:
        if value is True or isinstance(value, dict):
            raise ValueError(
                "learning facts about users is not available in this version of "
                "Coulisse; remove 'user_state' or set it to false"
            )
        return value


MEMORY: Section[MemoryConfig] = Section(
    key="memory", shape=MemoryConfig, default=MemoryConfig
)
