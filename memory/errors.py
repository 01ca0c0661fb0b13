"""Errors of facts about users."""

from core.errors import Invalid, NotFound


class FactUnknown(NotFound):
    """This user has no such fact."""

    code = "memory_not_found"


class FactInvalid(Invalid):
    """The fact is invalid."""


class KeyTaken(Invalid):
    """Another active fact of this user has this category and key."""

    code = "key_taken"
