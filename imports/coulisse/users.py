"""The users of the Rust version, and whether we find them by the same names."""

import uuid

from access.users import user_namespace
from core.ids import UserId
from imports.coulisse.source_database import Row, SourceDatabase, read_uuid
from imports.errors import SourceUnreadable
from processes.server.running_server import find_running
from processes.supervision import state_directory

USER_TABLES = ("messages", "memories", "scores")
NAMED_VERSION = 5
"""Of ids that are derived from names; other ids came from clients as they are."""


def read_user(row: Row) -> UserId:
    """Return the user of a row; raises `RowDamaged`."""
    return UserId(read_uuid(row, "user_id"))


def adopt_namespace(source: SourceDatabase) -> None:
    """Let us derive the same ids from names, if the Rust version has named users.

    Raises `NamespaceMismatch` if our database has users with other ids, and
    `SourceUnreadable` while a server runs, which would keep on deriving others.
    """
    if not _has_named_users(source):
        return
    namespace = user_namespace.RUST_NAMESPACE
    if not user_namespace.adopt(namespace, is_dry_run=True):
        return
    if running := find_running(state_directory.current_state()):
        raise SourceUnreadable(
            f"the server is running (pid {running[0]}): stop it, because the namespace "
            "of user ids changes"
        )
    user_namespace.adopt(namespace, is_dry_run=source.report.is_dry_run)
    source.report.note(
        "user ids are derived as in the Rust version, in a well-known namespace "
        f"(COULISSE_USER_NAMESPACE={namespace}); back up .coulisse/secrets.env"
    )


def _has_named_users(source: SourceDatabase) -> bool:
    if source.count("api_tokens"):
        return True
    return any(_is_named(user) for table in USER_TABLES for user in source.users(table))


def _is_named(user_id: object) -> bool:
    try:
        return uuid.UUID(str(user_id)).version == NAMED_VERSION
    except ValueError:
        return False
