"""The YAML's `telemetry:` block."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from config.sections import Section
from telemetry.log_output import log_levels
from telemetry.metrics.config import MetricsConfig
from telemetry.tracing.config import OtlpConfig


def _check_module(name: str) -> str:
    if problem := log_levels.find_module_problem(name):
        raise ValueError(problem)
    return name


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


class FmtConfig(BaseModel):
    """The log on stderr."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(
        default=True,
        description="Whether processes log to stderr. With `false`, only errors that "
        "end a process are logged.",
    )


class SqliteConfig(BaseModel):
    """The record of turns in the database, SQLite or PostgreSQL."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(
        default=True,
        description="Whether each turn is recorded, with its model and tool calls.",
    )
    keep_days: int | None = Field(
        default=30,
        ge=1,
        le=36_500,
        description="Days until a turn is deleted. `null` keeps turns forever.",
    )
    keep_totals_days: int | None = Field(
        default=1_100,
        ge=1,
        le=36_500,
        description="Days until the hourly totals of agents, models and tokens are "
        "deleted, which outlive the turns and name no user. Not before their "
        "turns; `null` keeps them forever.",
    )
    max_payload_bytes: int = Field(
        default=65_536,
        ge=256,
        le=16 * 1024 * 1024,
        description="Maximum stored bytes of a message, and of a call's arguments, "
        "result and error. Longer texts are truncated.",
    )
    show_to_users: bool = Field(
        default=False,
        description="Whether users may see the calls of their turns over HTTP: "
        "arguments and results of the agents' own tools, providers, models, errors. "
        "With `false`, `/v1/turns` returns 404, and exports omit the calls.",
    )

    @property
    def totals_days(self) -> int | None:
        """The age of totals: never less than that of the turns they replace."""
        if self.keep_days is None or self.keep_totals_days is None:
            return None
        return max(self.keep_days, self.keep_totals_days)


class RequestLogConfig(BaseModel):
    """The request log: one JSON object per HTTP request, without contents."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=False, description="Whether requests are logged.")
    path: str = Field(
        default=".coulisse/requests.log",
        min_length=1,
        description="The file: one in `.coulisse/` is in the state directory, another "
        "relative path is beside the YAML. `stderr` writes among the other log lines.",
    )
    max_bytes: int = Field(
        default=50 * 1024 * 1024,
        ge=64 * 1024,
        description="Size at which the file is renamed, to `requests.log.1`.",
    )
    keep_files: int = Field(
        default=4, ge=0, le=1000, description="How many renamed files are kept."
    )


class TelemetryConfig(BaseModel):
    """Settings of the logs, of the record of turns, and of traces."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fmt: FmtConfig = Field(default=FmtConfig(), description="The log on stderr.")
    sqlite: SqliteConfig = Field(
        default=SqliteConfig(),
        description="The record of turns in the database, SQLite or PostgreSQL.",
    )
    levels: dict[
        Annotated[str, AfterValidator(_check_module)],
        Annotated[log_levels.Level, BeforeValidator(_lower)],
    ] = Field(
        default_factory=dict,
        max_length=100,
        description="Log levels of single modules, by their names in the log. Other "
        "modules have the level of the environment's `COULISSE_LOG_LEVEL`, which also "
        "wins for modules that both name.",
        examples=[{"providers": "debug"}],
    )
    request_log: RequestLogConfig = Field(
        default=RequestLogConfig(),
        description="The request log: one JSON object per HTTP request.",
    )
    slow_query_ms: int | None = Field(
        default=None,
        ge=1,
        le=3_600_000,
        description="SQL statements that take at least so many milliseconds are "
        "logged, without values. `null` logs none.",
    )
    metrics: MetricsConfig = Field(
        default=MetricsConfig(), description="Metrics for Prometheus at `/metrics`."
    )
    otlp: OtlpConfig | None = Field(
        default=None,
        description="OpenTelemetry traces, sent to a collector. Without this block "
        "there are none.",
    )


def list_paths(telemetry: TelemetryConfig) -> dict[str, str]:
    """Return what only the file may set: the server's account writes there."""
    return {"request_log.path": telemetry.request_log.path}


TELEMETRY: Section[TelemetryConfig] = Section(
    key="telemetry",
    shape=TelemetryConfig,
    default=TelemetryConfig,
    file_only=list_paths,
    description="logs, metrics and traces",
)
