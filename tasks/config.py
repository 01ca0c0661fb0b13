"""The YAML's `tasks:` block."""

from pydantic import BaseModel, ConfigDict, Field

from config.sections import Section

MAX_RETRIES = 10


class TasksConfig(BaseModel):
    """Limits of background tasks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(
        default=True,
        description="Whether tasks run. If false, queued tasks wait, and neither users "
        "nor agents can submit more.",
    )
    workers: int = Field(
        default=4,
        ge=1,
        le=1_000,
        description="Number of tasks that one worker process runs at a time.",
    )
    tools: bool = Field(
        default=True,
        description="Whether agents have the tools dispatch_task and tasks_status, "
        "unless their `task_tools` differs.",
    )
    retries: int = Field(
        default=0,
        ge=0,
        le=MAX_RETRIES,
        description="Number of retries after a transient error, unless the request "
        "sets it.",
    )
    rerun_interrupted: bool = Field(
        default=True,
        description="Whether a task whose worker died runs again, three times at most; "
        "otherwise it is errored.",
    )
    timeout_seconds: float = Field(
        default=3_600,
        gt=0,
        le=7 * 24 * 3_600,
        description="Time limit of one attempt.",
    )
    drain_seconds: float = Field(
        default=60,
        ge=0,
        le=24 * 3_600,
        description="Time that running tasks get to finish when their worker stops; "
        "the others are handed over to another worker.",
    )
    keep_days: int | None = Field(
        default=30,
        ge=1,
        le=36_500,
        description="Days until an ended task is deleted; null means never.",
    )
    max_open: int = Field(
        default=1_000,
        ge=1,
        description="Maximum number of a user's own tasks that are queued or running.",
    )


TASKS: Section[TasksConfig] = Section(
    key="tasks",
    shape=TasksConfig,
    default=TasksConfig,
    description="background tasks",
)
