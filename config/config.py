"""The YAML keys of this layer: server settings, and text snippets (`vars:`)."""

import ipaddress
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from config.sections import Section


def _check_ip_address(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        message = "must be an IP address such as 127.0.0.1 (this machine only)"
        raise ValueError(message) from None
    return text


def _check_ip_network(text: str) -> str:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        message = "must be an IP address or a network such as 10.0.0.0/8"
        raise ValueError(message) from None
    return text


class ServerConfig(BaseModel):
    """How the server listens. A change takes a restart."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bind: Annotated[str, AfterValidator(_check_ip_address)] = Field(
        "0.0.0.0",  # noqa: S104 (the reference's default; containers need it)
        description="IP address to listen on; 127.0.0.1 is this machine only.",
    )
    port: int = Field(8421, ge=1, le=65535, description="TCP port to listen on.")
    worker_threads: int | None = Field(
        None,
        ge=1,
        le=256,
        description="Web processes to run, each on one core. Unset runs one.",
    )
    max_body_bytes: int = Field(
        2 * 1024 * 1024, ge=1, description="Largest request body accepted, in bytes."
    )
    max_connections: int = Field(
        1000,
        ge=1,
        description="Connections a web process keeps open; others are answered 503.",
    )
    max_connections_per_address: int | None = Field(
        200,
        ge=1,
        description="Connections of a web process that one client address may have; an "
        "IPv6 network of 64 bits counts as one address, this machine and "
        "`trusted_proxies` as none. `null` sets no limit.",
    )
    trusted_proxies: tuple[Annotated[str, AfterValidator(_check_ip_network)], ...] = (
        Field(
            (),
            description="Addresses or networks of reverse proxies. Their "
            "`X-Forwarded-For` and `X-Forwarded-Proto` name the client, and "
            "`max_connections_per_address` is not enforced on them.",
        )
    )
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="Public names the server answers to besides addresses and names "
        "without a dot: `agents.example.com`, `.example.com` for all under it, `*`.",
    )
    allow_private_images: bool = Field(
        False,
        description="Accept image addresses on private hosts, which the provider "
        "fetches: `localhost`, `10.0.0.5`, names without a dot.",
    )


SERVER = Section(
    key="server", shape=ServerConfig, default=ServerConfig, applies="restart"
)
VARS: Section[dict[str, str]] = Section(
    key="vars", shape=dict[str, str], default=dict, noun="variable"
)
