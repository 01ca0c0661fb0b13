"""Sessions of the studio: Django's own, in an encrypted cookie."""

from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponse

from access.authentication.config import AUTH
from access.authentication.encrypted_sessions import EncryptedSession
from config import live


class SessionStore(EncryptedSession):
    """The session of a browser; `SESSION_ENGINE` names this module."""

    purpose = "studio"


class StudioSessionMiddleware(SessionMiddleware):
    """Middleware: sets secure cookies if the studio is reached over https."""

    def process_response(
        self, request: HttpRequest, response: HttpResponse
    ) -> HttpResponse:
        result = super().process_response(request, response)
        admin = live.current().get(AUTH).admin
        if admin is not None and admin.oidc is not None and admin.oidc.is_over_https:
            for cookie in result.cookies.values():
                cookie["secure"] = True
        return result
