"""The storages that `storage.backend` names, as Django's."""

import os
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core.files.storage import FileSystemStorage, Storage
from pydantic import SecretStr

from config import live
from files.config import MEBIBYTE, STORAGE, S3Config

CONNECT_SECONDS, READ_SECONDS = 5, 30
"""Time limits of S3."""
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700


def current_storage() -> Storage:
    """Return the storage that the YAML names."""
    config = live.current().get(STORAGE)
    if config.backend == "s3" and config.s3 is not None:
        return _s3_storage(config.s3)
    return FolderStorage(
        location=settings.COULISSE_FILES_DIR,
        file_permissions_mode=PRIVATE_FILE,
        directory_permissions_mode=PRIVATE_FOLDER,
    )


def upload_folder() -> Path:
    """Return the folder of uploads that are being received.

    It is in the folder of files, so that an upload is moved there in one step.
    """
    folder: Path = settings.COULISSE_FILES_DIR / ".uploads"
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    return folder


class FolderStorage(FileSystemStorage):
    """A folder. Django moves an upload's temporary file there; a name is never half
    written."""

    def save(
        self, name: str | None, content: IO[Any], max_length: int | None = None
    ) -> str:
        # On the disk before a row refers to it.
        os.fsync(content.fileno())
        return super().save(name, content, max_length)


@lru_cache(maxsize=2)
def _s3_storage(config: S3Config) -> Storage:
    """Return the storage of a bucket; it connects when it is used."""
    # Imported here, because they cost 40 MB.
    from botocore.config import Config
    from storages.backends.s3 import S3Storage

    style = "auto" if config.endpoint_url is None else "path"
    storage: Storage = S3Storage(
        bucket_name=config.bucket,
        region_name=config.region,
        endpoint_url=config.endpoint_url,
        location=config.prefix,
        access_key=_reveal(config.access_key_id),
        secret_key=_reveal(config.secret_access_key),
        max_memory_size=MEBIBYTE,
        client_config=Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"mode": "standard", "max_attempts": 3},
            s3={"addressing_style": style},
            signature_version="s3v4",
        ),
    )
    return storage


def _reveal(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
