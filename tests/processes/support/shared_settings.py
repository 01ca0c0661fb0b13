"""The project's settings, with an SQLite file that several servers share."""

import os

from coulisse_site.settings import *  # noqa: F403
from coulisse_site.settings import DATABASES

if "SHARED_DATABASE" in os.environ:
    DATABASES["default"]["NAME"] = os.environ["SHARED_DATABASE"]
