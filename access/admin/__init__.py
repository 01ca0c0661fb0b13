"""The tables of this app in the studio, which Django's admin loads."""

from access.admin import accounts, records, tokens  # noqa: F401  # registers them
