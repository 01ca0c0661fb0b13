"""The tables of this app in the studio, which Django's admin loads."""

from memory.admin import conversations, facts  # noqa: F401  # registers them
