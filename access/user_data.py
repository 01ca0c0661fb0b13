"""The export of the API tokens that belong to users.

An erasure leaves them: they are the operator's.
"""

from datetime import datetime

from access.models import ApiToken
from access.user_lookup import user_tokens
from database.user_data import Export, ExportedRow, UserTable


class ExportedToken(ExportedRow):
    """An API token that belongs to the user, without its digest."""

    label: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


TABLES = (
    UserTable(
        "api_tokens",
        ApiToken,
        erased=None,
        export=Export("api_tokens", ExportedToken, user_tokens),
    ),
)
