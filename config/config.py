"""The YAML keys of this layer: server settings, and text snippets (`vars:`)."""

import ipaddress
import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from config.sections import Config, Section
from config.validation.http_values import WebAddress


def _check_ip_address(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        message = "must be an IP address such as 127.0.0.1 (this machine only)"
        raise ValueError(message) from None
    return text


def check_ip_network(text: str) -> str:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        message = "must be an IP address or a network such as 10.0.0.0/8"
        raise ValueError(message) from None
    return text


def _clean_base_url(value: str) -> str:
    if urlsplit(value).query:
        raise ValueError("must be an address without a query")
    return value.rstrip("/")


def _check_origin(text: str) -> str:
    origin = text.lower().rstrip("/")
    if text != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s,]+", origin):
        raise ValueError(
            "must be the origin of a page, such as https://app.example.com, or '*'"
        )
    return origin


class ServerConfig(BaseModel):
    """The address, port and limits of the server. Changes require a restart."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bind: Annotated[str, AfterValidator(_check_ip_address)] = Field(
        "0.0.0.0",  # noqa: S104 (the reference's default; containers need it)
        description="IP address to listen on; 127.0.0.1 accepts only this machine.",
    )
    port: int = Field(8421, ge=1, le=65535, description="TCP port to listen on.")
    worker_threads: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] | None = (
        Field(
            None,
            description="Number of web processes, each on one core. `auto`: as many as "
            "there are cores. Unset: one.",
        )
    )
    max_body_bytes: int = Field(
        2 * 1024 * 1024, ge=1, description="Largest request body accepted, in bytes."
    )
    max_connections: int = Field(
        1000,
        ge=1,
        description="Maximum connections of a web process; further ones receive 503.",
    )
    max_connections_per_address: int | None = Field(
        200,
        ge=1,
        description="Maximum connections of a web process per client address. An IPv6 "
        "/64 network counts as one address; this machine and `trusted_proxies` are "
        "exempt. `null` sets no limit.",
    )
    drain_seconds: float = Field(
        60,
        ge=0,
        le=3600,
        description="Time that open replies get to finish when the server stops.",
    )
    lame_duck_seconds: float = Field(
        0,
        ge=0,
        le=300,
        description="Time before that in which a stopping server still accepts "
        "connections, but is not ready, so that a load balancer stops sending any.",
    )
    trusted_proxies: tuple[Annotated[str, AfterValidator(check_ip_network)], ...] = (
        Field(
            (),
            description="Addresses or networks of reverse proxies. The server trusts "
            "their `X-Forwarded-For` and `X-Forwarded-Proto` headers, and exempts them "
            "from `max_connections_per_address`.",
        )
    )
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="Public host names of the server: `agents.example.com`, "
        "`.example.com` with all subdomains, or `*` for any. IP addresses and names "
        "without a dot are always accepted.",
    )
    allowed_origins: tuple[Annotated[str, AfterValidator(_check_origin)], ...] = Field(
        (),
        description="Origins whose pages may call `/v1` and `/mcp` from a browser "
        "(CORS): `https://app.example.com`, or `*` for any page, without cookies.",
    )
    response_model: Literal["agent", "model"] = Field(
        "agent",
        description="What `model` names in replies: the agent, or the provider's model "
        "that has answered.",
    )
    allow_private_images: bool = Field(
        False,
        description="Whether requests may contain image URLs on private hosts "
        "(`localhost`, `10.0.0.5`, names without a dot), which the provider fetches.",
    )


SERVER = Section(
    key="server",
    shape=ServerConfig,
    default=ServerConfig,
    applies="restart",
    is_per_machine=True,
    description="the address, port and limits of the server",
)
PUBLIC_BASE_URL: Section[str | None] = Section(
    key="public_base_url",
    shape=Annotated[
        WebAddress,
        AfterValidator(_clean_base_url),
        Field(
            description="The public address of this server, such as "
            "https://agents.example.com. Links for users begin with it. Default: "
            "http://localhost with the server's port."
        ),
    ],
    default=lambda: None,
    description="the address clients reach the server at",
)
VARS: Section[dict[str, str]] = Section(
    key="vars",
    shape=dict[str, str],
    default=dict,
    noun="variable",
    description="reusable text, inserted with ${vars.name}",
)


def allowed_hosts(config: Config) -> tuple[str, ...]:
    """Return the public host names of the server, also that of `public_base_url`."""
    names = config.get(SERVER).allowed_hosts
    address = config.get(PUBLIC_BASE_URL)
    return names if address is None else (*names, urlsplit(address).hostname or "")
