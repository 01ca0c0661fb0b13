"""The YAML's `telemetry.metrics:`."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from config.config import check_ip_network

MIN_TOKEN_LENGTH = 16


def _check_token(value: SecretStr | None) -> SecretStr | None:
    if value is not None and len(value.get_secret_value()) < MIN_TOKEN_LENGTH:
        raise ValueError(
            f"must have at least {MIN_TOKEN_LENGTH} characters; "
            "`openssl rand -hex 24` prints one"
        )
    return value


class MetricsConfig(BaseModel):
    """Metrics for Prometheus at `/metrics`, and who may read them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(
        default=False,
        description="Whether processes measure, and `/metrics` is served. If false, it "
        "returns 404.",
    )
    token: Annotated[SecretStr | None, AfterValidator(_check_token)] = Field(
        default=None,
        description="The bearer token that Prometheus sends. Without `token` and "
        "`networks`, only this machine may read the metrics.",
    )
    networks: tuple[Annotated[str, AfterValidator(check_ip_network)], ...] | None = (
        Field(
            default=None,
            description="Addresses or networks that may read the metrics, such as "
            "`10.0.0.0/8`, directly and not through a proxy. With `token`, requests "
            "need both.",
        )
    )
