"""Sessions stored in an encrypted cookie, without a table.

They are Django sessions, so code for those works with them. Only processes with the
same `SECRET_KEY` can read them.
"""

import base64
import json
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.contrib.sessions.backends import signed_cookies

MAX_AGE_SECONDS = 24 * 3600
"""The longest duration of a login, used or not, before a new login at the provider."""

MAX_COOKIE = 4096
"""Characters; a longer cookie is not decrypted."""


class EncryptedSession(signed_cookies.SessionStore):
    """A session whose key, the cookie's value, holds all of its data."""

    purpose = ""
    """A session of one purpose is not valid for another."""

    def load(self) -> dict[str, object]:
        """Return the session's data; empty if it is expired or invalid."""
        key = self.session_key or ""
        try:
            if len(key) > MAX_COOKIE:
                raise InvalidToken
            body = self._fernet().decrypt(
                key.encode("ascii"), ttl=self.get_session_cookie_age()
            )
            content: dict[str, object] = json.loads(body)
        except (InvalidToken, UnicodeEncodeError, ValueError):
            self.create()
            return {}
        return content

    def _get_session_key(self) -> str:
        body = json.dumps(dict(self.items()), separators=(",", ":"))
        return self._fernet().encrypt(body.encode()).decode()

    def _fernet(self) -> Fernet:
        return _fernet(str(settings.SECRET_KEY), self.purpose)


@lru_cache(maxsize=8)
def _fernet(secret_key: str, purpose: str) -> Fernet:
    derivation = HKDF(
        algorithm=SHA256(), length=32, salt=None, info=f"session:{purpose}".encode()
    )
    return Fernet(base64.urlsafe_b64encode(derivation.derive(secret_key.encode())))
