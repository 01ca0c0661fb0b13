"""Changes `coulisse.yaml` so that `/v1` requires tokens."""

from typing import Any

from access.config import DEFAULT_USER_ID, SHARED_USER_ID, USERS
from config.editing.config_file import ConfigFile
from config.sections import Config
from config.starters import starter_file

TOKENS_PATH = ("auth", "proxy", "tokens")
REMOVED_SECTIONS = (DEFAULT_USER_ID.key, USERS.key)


def enable_tokens(file: ConfigFile) -> dict[str, Any]:
    """Return a file's data with tokens required.

    Every token belongs to a user, so the fallback user for unnamed requests is removed.
    """
    data = {
        key: value for key, value in file.data.items() if key not in REMOVED_SECTIONS
    }
    users = file.data.get(USERS.key)
    if isinstance(users, dict) and users.keys() - {"mode"}:
        data[USERS.key] = {key: users[key] for key in users if key != "mode"}
    auth = data.get("auth") or {}
    proxy = auth.get("proxy") or {}
    tokens = {"tokens": proxy.get("tokens") or {}}
    return {**data, "auth": {**auth, "proxy": {**proxy, **tokens}}}


def removed_comments() -> dict[str, set[str]]:
    """Return the comments of our starter files that belong to removed settings."""
    return {key: starter_file.comments_above(key) for key in REMOVED_SECTIONS}


def shared_user_name(config: Config) -> str | None:
    """Return the name of the user of requests that name no user."""
    if config.get(USERS).mode == "shared":
        return SHARED_USER_ID
    user: str | None = config.get(DEFAULT_USER_ID)
    return user
