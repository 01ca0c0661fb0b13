"""The YAML's `telemetry.otlp` block."""

from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from config.validation.http_values import Headers, WebAddress

Protocol = Literal["grpc", "http", "http_binary"]
TRACES_PATH = "/v1/traces"


class OtlpConfig(BaseModel):
    """Where spans are sent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: WebAddress = Field(
        description="The collector's address: for `grpc` such as "
        "http://localhost:4317, for `http` such as http://localhost:4318.",
        examples=["http://localhost:4317"],
    )
    protocol: Protocol = Field(
        default="grpc",
        description="`grpc`, or `http` for protobuf over HTTP, also called "
        "`http_binary`.",
    )
    service_name: str = Field(
        default="coulisse",
        min_length=1,
        max_length=255,
        description="The resource attribute `service.name`.",
    )
    headers: Headers = Field(
        default_factory=dict,
        description="Headers of each export, such as the collector's key.",
    )
    sample_ratio: float = Field(
        default=1.0,
        ge=0.0,
        le=1.0,
        description="Share of the traces that are exported. A request with a "
        "`traceparent` header is exported if its trace is sampled.",
    )
    content: bool = Field(
        default=False,
        description="Whether spans contain prompts, replies, and the arguments and "
        "results of tools.",
    )

    @property
    def url(self) -> str:
        """The address of the exports; for HTTP with its path."""
        if self.protocol == "grpc" or urlsplit(self.endpoint).path.strip("/"):
            return self.endpoint
        return self.endpoint.rstrip("/") + TRACES_PATH
