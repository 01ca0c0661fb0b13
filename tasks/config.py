"""The YAML's `tasks:` block."""

from pydantic import BaseModel, ConfigDict, Field

from config.sections import Section


class TasksConfig(BaseModel):
    """How work is done in the background."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workers: int = Field(
        default=4,
        ge=1,
        le=1_000,
        description="How many tasks one worker process does at a time.",
    )


TASKS: Section[TasksConfig] = Section(
    key="tasks",
    shape=TasksConfig,
    default=TasksConfig,
)
