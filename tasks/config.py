"""The YAML's `tasks:` block."""

from pydantic import BaseModel, ConfigDict, Field

from config.sections import Section

MAX_RETRIES = 10


class TasksConfig(BaseModel):
    """How work is done in the background."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(
        default=True,
        description="Whether work is done. Off, what is queued waits, and neither "
        "users nor agents can ask for more.",
    )
    workers: int = Field(
        default=4,
        ge=1,
        le=1_000,
        description="How many tasks one worker process does at a time.",
    )
    tools: bool = Field(
        default=True,
        description="Give agents the tools dispatch_task and tasks_status, where "
        "their `task_tools` does not say otherwise. Without a `tasks:` block they "
        "have neither.",
    )
    retries: int = Field(
        default=0,
        ge=0,
        le=MAX_RETRIES,
        description="How often a task is tried again after an error that may pass, "
        "where whoever asks for it does not say.",
    )
    rerun_interrupted: bool = Field(
        default=True,
        description="Whether a task whose worker died is run again, three times at "
        "most; else it is errored.",
    )
    timeout_seconds: float = Field(
        default=3_600,
        gt=0,
        le=7 * 24 * 3_600,
        description="How long one attempt may take.",
    )
    keep_days: int | None = Field(
        default=30,
        ge=1,
        le=36_500,
        description="How long a task that has ended is kept; null is for ever.",
    )
    max_open: int = Field(
        default=1_000,
        ge=1,
        description="How many of a user's own tasks may be queued and running.",
    )


def _default_config() -> TasksConfig:
    """Return what applies where the YAML does not speak of tasks."""
    return TasksConfig(tools=False)


TASKS: Section[TasksConfig] = Section(
    key="tasks",
    shape=TasksConfig,
    default=_default_config,
)
