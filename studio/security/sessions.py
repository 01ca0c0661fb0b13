"""Sessions of the studio: in a cookie, encrypted, of Django's own make."""

from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest, HttpResponse

from access.authentication.config import AUTH
from access.authentication.encrypted_sessions import EncryptedSession
from config import live


class SessionStore(EncryptedSession):
    """What a browser keeps for the studio; `SESSION_ENGINE` names this module."""

    purpose = "studio"


class StudioSessionMiddleware(SessionMiddleware):
    """Middleware: keeps cookies to https where the studio is reached by it."""

    def process_response(
        self, request: HttpRequest, response: HttpResponse
    ) -> HttpResponse:
        answer = super().process_response(request, response)
        admin = live.current().get(AUTH).admin
        if admin is not None and admin.oidc is not None and admin.oidc.is_over_https:
            for cookie in answer.cookies.values():
                cookie["secure"] = True
        return answer
