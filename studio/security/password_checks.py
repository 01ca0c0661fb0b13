"""Checks passwords before one of the studio's threads takes the request.

There are few threads, and hashing takes half a second; pages and assets would wait.
"""

from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest

from access.authentication import login_throttle
from access.authentication.basic_auth import PasswordChecker
from access.authentication.config import AUTH, AdminAuth
from access.authentication.schemes import BasicLogin
from access.errors import CredentialRequired
from config import live
from core.errors import CoulisseError

RESULT_ATTRIBUTE = "_coulisse_password"
"""The request attribute with the checker and the outcome of its check."""


async def check_password(request: HttpRequest) -> None:
    """Check the password of a request, and store the outcome with the request."""
    try:
        admin = live.current().get(AUTH).admin
    except CoulisseError:
        return  # The middleware raises the same error and responds to it.
    if admin is None or admin.basic is None:
        return
    passwords = _checker_of(admin.logins)
    outcome: str | CoulisseError
    try:
        outcome = await _username(passwords, request)
    except CoulisseError as exc:
        outcome = exc
    setattr(request, RESULT_ATTRIBUTE, (passwords, outcome))


async def _username(passwords: PasswordChecker, request: HttpRequest) -> str:
    header = request.headers.get("Authorization")
    address = request.META.get("REMOTE_ADDR", "")
    if request.path.startswith(settings.STATIC_URL):
        # Assets are public, so passwords sent with them are not hashed.
        return passwords.check_cached(header, address)
    return await passwords.check(header, address)


def checked_username(request: HttpRequest, admin: AdminAuth) -> str:
    """Return the authenticated username; raises the stored error of the check."""
    passwords = _checker_of(admin.logins)
    checker, outcome = getattr(request, RESULT_ATTRIBUTE, (None, None))
    if checker is not passwords:  # `auth.admin` has changed since the check.
        raise CredentialRequired(challenge=passwords.challenge)
    if isinstance(outcome, CoulisseError):
        raise outcome
    return str(outcome)


@lru_cache(maxsize=1)
def _checker_of(logins: tuple[BasicLogin, ...]) -> PasswordChecker:
    """Return the password checker, which is cached until `auth.admin` changes."""
    return PasswordChecker(
        logins, realm="Coulisse studio", throttle=login_throttle.STUDIO_THROTTLE
    )
