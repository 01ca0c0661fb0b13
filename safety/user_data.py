"""Incidents of users, for export and erasure. Those of incognito turns have no user."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from api_base.field_types import NullIfEmpty
from database.user_data import Export, ExportedRow, UserTable
from safety.models import Incident


class ExportedIncident(ExportedRow):
    """What a safety check found in one of the user's turns."""

    at: datetime
    check: str = Field(validation_alias="check_name")
    level: NullIfEmpty = Field(description="null if the check failed.")
    stage: str
    agent: str
    actions: str
    reason: str
    excerpt: str
    turn_id: UUID


EXPORT = Export("safety_incidents", ExportedIncident)
TABLES = (UserTable("safety_incidents", Incident, erased=66, export=EXPORT),)
