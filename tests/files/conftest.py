"""Fixtures of the tests of files."""

from collections.abc import Callable, Iterator
from pathlib import Path

import openai
import pytest
from django.conf import settings

from access.users import identity
from core.ids import UserId


@pytest.fixture
def as_user(client: openai.OpenAI) -> Callable[[str], openai.OpenAI]:
    """Return a function that returns OpenAI's client for a user."""

    def as_user(name: str) -> openai.OpenAI:
        return client.with_options(default_headers={"X-Coulisse-User": name})

    return as_user


@pytest.fixture
def mine(as_user, user: str) -> openai.OpenAI:
    """OpenAI's client for the user of the test."""
    return as_user(user)


@pytest.fixture
def user_id(server, user: str) -> UserId:
    return identity.derive_user_id(user)


@pytest.fixture
def folder() -> Iterator[Path]:
    """The folder with the bytes of all files."""
    return settings.COULISSE_FILES_DIR


def stored(folder: Path) -> set[str]:
    """Return the names of stored contents."""
    return {path.name for path in folder.iterdir() if path.is_file()}
