"""The YAML's `sidecars:` list. Source: "Sidecars" of the reference."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from config.sections import Section
from config.validation.named_lists import by_name

Restart = Literal["always", "on-failure", "never"]
Text = Annotated[str, Field(min_length=1)]

MAX_STOP_SECONDS = 8
"""All of a server is over within ten seconds of SIGTERM."""


class HealthConfig(BaseModel):
    """How a sidecar that runs and does nothing is found out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: Text = Field(
        description="What is run to ask: exit code 0 means well. It sees the sidecar's "
        "`env` and `cwd`."
    )
    args: tuple[str, ...] = Field((), description="Arguments of the command.")
    interval_seconds: float = Field(
        30, ge=0.1, le=86_400, description="How long it waits before it asks again."
    )
    timeout_seconds: float = Field(
        5, gt=0, le=3600, description="Most the command may take."
    )
    failures: int = Field(
        3,
        ge=1,
        le=1000,
        description="How many failures in a row end the sidecar, which then starts "
        "again.",
    )


class SidecarConfig(BaseModel):
    """One process that runs beside the server."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        # Values of env are among the input.
        hide_input_in_errors=True,
    )

    name: Annotated[str, Field(min_length=1, max_length=64)] = Field(
        description="What it is called in the log and in `status`."
    )
    command: Text = Field(
        description="The program: a name on the `PATH`, or a path. No shell reads it."
    )
    args: tuple[str, ...] = Field((), description="Arguments of the program.")
    env: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Environment variables of the program, beside the server's own.",
    )
    cwd: Text | None = Field(
        None,
        description="Where it runs, seen from where the server was started, which it "
        "is unless given.",
    )
    restart: Restart = Field(
        "on-failure",
        description="When it is started again: `always`; `on-failure`, unless it ended "
        "with exit code 0; `never`.",
    )
    health: HealthConfig | None = Field(
        None, description="How it is asked whether it is well. Unset: it is not."
    )
    stop_seconds: float = Field(
        5,
        gt=0,
        le=MAX_STOP_SECONDS,
        description="How long it may take to end after SIGTERM, before it is killed.",
    )


SIDECARS: Section[dict[str, SidecarConfig]] = Section(
    key="sidecars",
    shape=Annotated[list[SidecarConfig], AfterValidator(by_name("sidecar"))],
    default=dict,
    noun="sidecar",
    file_only=dict,  # Each of them is a command.
)
