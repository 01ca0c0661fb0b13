"""The YAML's `storage:`: where uploads are stored, and their limits."""

import re
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from config.sections import Config, Problem, Section

MEBIBYTE = 1024 * 1024
TYPE_PATTERN = re.compile(r"[a-z]+/(?:\*|[a-z0-9.+-]+)")


def _check_type(value: str) -> str:
    if not TYPE_PATTERN.fullmatch(value):
        raise ValueError("must be a media type such as application/pdf or image/*")
    return value


class S3Config(BaseModel):
    """A bucket of S3 or of a compatible service."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    bucket: str = Field(min_length=3, max_length=63, description="Its name.")
    region: str | None = Field(None, description="Its region, such as `eu-west-3`.")
    endpoint_url: (
        Annotated[str, Field(pattern=r"^https?://[^/\s@?#]+(/[^\s?#]*)?$")] | None
    ) = Field(
        None, description="The address of a compatible service, such as MinIO or R2."
    )
    prefix: str = Field(
        "coulisse",
        pattern=r"^[\w.-]+(/[\w.-]+)*$",
        description="Precedes the names of all objects.",
    )
    access_key_id: SecretStr | None = Field(
        None, description="The key. Default: from the environment, `~/.aws` or a role."
    )
    secret_access_key: SecretStr | None = Field(
        None, description="The secret of the key."
    )


class StorageConfig(BaseModel):
    """Uploads to `/v1/files`: where their bytes are, their types and sizes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: Literal["fs", "s3"] = Field(
        "fs", description="`fs` is `files/` in the state directory, `s3` a bucket."
    )
    s3: S3Config | None = Field(None, description="The bucket of `backend: s3`.")
    max_file_bytes: int | None = Field(
        512 * MEBIBYTE,
        ge=1,
        description="Largest file accepted, in bytes; `null` sets no limit.",
    )
    max_user_bytes: int | None = Field(
        1024 * MEBIBYTE,
        ge=1,
        description="Bytes that the files of one user may have together: an upload "
        "that exceeds them deletes the user's oldest files. `null` sets no limit.",
    )
    max_total_bytes: int | None = Field(
        None, ge=1, description="The same for the files of all users together."
    )
    allowed_types: tuple[Annotated[str, AfterValidator(_check_type)], ...] = Field(
        (
            "text/*",
            "image/*",
            "audio/*",
            "application/pdf",
            "application/json",
            "application/octet-stream",
        ),
        description="Media types accepted, as the content shows them; `image/*` is "
        "all of a kind. `application/octet-stream` is content without a known form; "
        "programs and archives have types of their own.",
    )
    retention_days: int | None = Field(
        None,
        ge=1,
        description="Days after which files are deleted. Default: they are kept.",
    )

    def allows_type(self, content_type: str) -> bool:
        family = content_type.partition("/")[0]
        return not {content_type, f"{family}/*"}.isdisjoint(self.allowed_types)

    @property
    def largest_file(self) -> int | None:
        """The bytes that a file may have at most."""
        limits = (self.max_file_bytes, self.max_user_bytes, self.max_total_bytes)
        return min((limit for limit in limits if limit is not None), default=None)


def check(settings: StorageConfig, config: Config) -> Iterable[Problem]:
    """Require the bucket of `backend: s3`, and both halves of its key."""
    if settings.backend == "s3" and settings.s3 is None:
        yield Problem(
            ("storage", "backend"),
            "storage uses backend: s3 but names no bucket; add s3: with bucket:",
            "coulisse.E571",
        )
    s3 = settings.s3
    if s3 and (s3.access_key_id is None) != (s3.secret_access_key is None):
        yield Problem(
            ("storage", "s3"),
            "storage.s3 needs both access_key_id and secret_access_key, or neither",
            "coulisse.E572",
        )


STORAGE: Section[StorageConfig] = Section(
    key="storage",
    shape=StorageConfig,
    default=StorageConfig,
    check=check,
    description="where uploaded files are stored",
)
