"""Sample sections with secrets of every kind, and helpers for masks."""

from typing import Any

from pydantic import BaseModel, ConfigDict, SecretStr

from config.editing import document, secret_masks, secret_restoration
from config.sections import Section


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Door(Strict):
    name: str | None = None
    key: SecretStr | None = None
    colour: str = ""
    codes: list[SecretStr] = []


class Vault(Strict):
    password: SecretStr | int | None = None
    note: str = ""
    key_words: list[str] = []
    doors: list[Door] = []
    env: dict[str, SecretStr] = {}
    extra: dict[str, Any] = {}
    inner: "Vault | None" = None


VAULTS: Section[dict[str, Vault]] = Section(
    key="vaults", shape=dict[str, Vault], default=dict, noun="vault"
)
LOOSE: Section[dict[str, str]] = Section(
    key="loose", shape=dict[str, str], default=dict
)


def masked(text):
    return secret_masks.mask_document(
        document.parse_document(text.encode())
    ).content.decode()


def restored(submitted, text):
    return secret_restoration.restore_content(
        submitted.encode(), document.parse_document(text.encode()), "file"
    ).decode()


def parsed(text):
    return document.parse_document(text.encode()).data
