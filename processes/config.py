"""The YAML's `sidecars:` list. Source: "Sidecars" of the reference."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from config.sections import Section
from config.validation.named_lists import by_name

Restart = Literal["always", "on-failure", "never"]
Text = Annotated[str, Field(min_length=1)]

MAX_STOP_SECONDS = 8
"""The whole server stops within ten seconds of SIGTERM."""


class HealthConfig(BaseModel):
    """A health check, which detects a sidecar that runs but hangs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: Text = Field(
        description="The program that checks the sidecar, with the sidecar's `env` and "
        "`cwd`. Exit code 0 means healthy."
    )
    args: tuple[str, ...] = Field((), description="Arguments of the command.")
    interval_seconds: float = Field(
        30, ge=0.1, le=86_400, description="Pause between two checks."
    )
    timeout_seconds: float = Field(
        5, gt=0, le=3600, description="Time limit of one check."
    )
    failures: int = Field(
        3,
        ge=1,
        le=1000,
        description="Consecutive failed checks after which the sidecar is stopped; "
        "`restart` decides whether it starts again.",
    )


class SidecarConfig(BaseModel):
    """A process that runs beside the server."""

    # The input contains the values of `env`.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: Annotated[str, Field(min_length=1, max_length=64)] = Field(
        description="The sidecar's name in the log and in `status`."
    )
    command: Text = Field(
        description="The program: a name on the `PATH`, or a path. No shell runs it."
    )
    args: tuple[str, ...] = Field((), description="Arguments of the program.")
    env: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Environment variables of the program, added to the server's.",
    )
    cwd: Text | None = Field(
        None,
        description="Working directory, relative to the one in which the server was "
        "started, which is the default.",
    )
    restart: Restart = Field(
        "on-failure",
        description="When it restarts: `always`; `on-failure`, which means unless it "
        "ended with exit code 0; `never`.",
    )
    health: HealthConfig | None = Field(
        None, description="The health check. Unset: none."
    )
    stop_seconds: float = Field(
        5,
        gt=0,
        le=MAX_STOP_SECONDS,
        description="Time to end after SIGTERM before it is killed.",
    )


SIDECARS: Section[dict[str, SidecarConfig]] = Section(
    key="sidecars",
    shape=Annotated[list[SidecarConfig], AfterValidator(by_name("sidecar"))],
    default=dict,
    noun="sidecar",
    file_only=dict,  # The studio must not set commands.
    is_per_machine=True,
    description="programs that run beside the server",
)
