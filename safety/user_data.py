"""Incidents of users, for erasure. Those of incognito turns have no user.

Exports have none: operators can make an export of a user, but only readers of incidents
may read these.
"""

from database.user_data import UserTable
from safety.models import Incident

TABLES = (UserTable("safety_incidents", Incident, erased=66),)
