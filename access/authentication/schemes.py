"""The schemes of `auth:`: passwords, an identity provider, API tokens."""

from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import urlsplit

from django.contrib.auth import hashers
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetPydanticSchema,
    SecretStr,
    StringConstraints,
    field_validator,
)
from pydantic_core import core_schema

from access.authentication import secret_digests
from access.authentication.secret_digests import SecretDigest

HASH_PREFIXES = ("pbkdf2_sha256", "pbkdf2_sha1", "scrypt")
"""The prefixes of hashed passwords, before a `$`."""


class AuthModel(BaseModel):
    """A part of `auth:`; its secrets appear in no message."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def _check_username(name: str) -> str:
    if ":" in name or not name.isprintable():
        raise ValueError("must be printable text without a colon (HTTP Basic)")
    return name


Username = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=512),
    AfterValidator(_check_username),
]


def _read_as_secret(convert: Callable[[SecretStr], Any]) -> GetPydanticSchema:
    """Return a validator of a secret that stores the result of `convert`.

    The JSON Schema stays that of a secret, by which the studio masks its value.
    """
    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_after_validator_function(
            convert, handler.generate_schema(SecretStr)
        )
    )


def _password_digest(secret: SecretStr) -> SecretDigest | SecretStr:
    text = secret.get_secret_value()
    if not text.strip():
        raise ValueError("must not be empty")
    if not _is_hash(text):
        return secret_digests.digest_password(text)
    _check_hash(text)
    return secret


def _token_digest(secret: SecretStr) -> SecretDigest | None:
    text = secret.get_secret_value().strip()
    if not text:
        return None
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("must consist of visible ASCII characters, without spaces")
    return secret_digests.digest_token(text)


Password = Annotated[SecretDigest | SecretStr, _read_as_secret(_password_digest)]
"""A digest of the password, or the hash that the YAML has instead."""
ComparedToken = Annotated[SecretDigest | None, _read_as_secret(_token_digest)]
"""A digest of the bearer token that clients send; None for an empty text."""


class BasicLogin(AuthModel):
    """A username and its password."""

    username: Username = Field("admin", description="The name to log in with.")
    password: Password = Field(
        description="The password, with at least 8 characters, or its hash in Django's "
        "format (`pbkdf2_sha256$…`), as `coulisse hash-password` prints it."
    )


def _is_hash(password: str) -> bool:
    return password.partition("$")[0] in HASH_PREFIXES and "$" in password


def _check_hash(password: str) -> None:
    """Raise `ValueError` for a malformed password hash."""
    try:
        hashers.identify_hasher(password).decode(password)
    except (AssertionError, KeyError, TypeError, ValueError):
        # Not `from exc`: its message might show the hash.
        raise ValueError(
            "starts like a hash but is not valid; create one with `coulisse "
            "hash-password`"
        ) from None


def _check_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_valid = bool(parts.scheme in ("http", "https") and parts.hostname)
        is_valid = is_valid and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        is_valid = False
    if not is_valid or parts.query or parts.fragment or not text.isprintable():
        raise ValueError("must be an address such as https://login.example.com/")
    return text


Url = Annotated[
    str, StringConstraints(strip_whitespace=True), AfterValidator(_check_url)
]
NonEmptyText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Scope = Annotated[str, StringConstraints(pattern=r"^[\x21\x23-\x5b\x5d-\x7e]+$")]


class OidcConfig(AuthModel):
    """An identity provider (OpenID Connect) that authenticates users."""

    issuer_url: Url = Field(
        description="The provider's issuer identifier. Its metadata is at "
        "`/.well-known/openid-configuration` below this address."
    )
    client_id: NonEmptyText = Field(
        description="The id of this server's client at the provider."
    )
    client_secret: SecretStr | None = Field(
        None,
        description="The client secret of a confidential client; unset for a public "
        "client (PKCE).",
    )
    redirect_url: Url = Field(
        description="The callback address, as registered at the provider: under /v1/ "
        "for the API, under /admin/ for the studio."
    )
    scopes: tuple[Scope, ...] = Field(
        ("email", "profile"), description="The scopes to request besides `openid`."
    )
    audience: NonEmptyText | tuple[NonEmptyText, ...] = Field(
        (),
        description="Accepted audiences of bearer tokens besides the `client_id`, such "
        "as the name of an API at the provider.",
    )

    @field_validator("client_secret", mode="after")
    @classmethod
    def _may_be_empty(cls, value: SecretStr | None) -> SecretStr | None:
        return value if value is not None and value.get_secret_value() else None

    @property
    def audiences(self) -> tuple[str, ...]:
        others = (self.audience,) if isinstance(self.audience, str) else self.audience
        return (self.client_id, *others)

    @property
    def authority(self) -> str:
        """The issuer and client id of a login."""
        return f"{self.issuer_url} {self.client_id}"

    @property
    def is_over_https(self) -> bool:
        """Whether browsers reach this server by https, so that cookies can be
        secure."""
        return self.redirect_url.startswith("https:")


class TokensConfig(AuthModel):
    """API tokens that this server issues; there are no settings."""
