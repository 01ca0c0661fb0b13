"""The browser login at an identity provider.

mozilla-django-oidc implements the flow (code, PKCE, state and nonce in the session);
this module takes its Django settings from one scope of `auth:`, and validates the
provider's responses more strictly.
"""

import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.utils import import_from_settings
from mozilla_django_oidc.views import (
    OIDCAuthenticationCallbackView,
    OIDCAuthenticationRequestView,
)

from access.authentication import oidc_http
from access.authentication.oidc_tokens import TokenVerifier
from access.errors import IdentityProviderBroken, LoginFailed

STATES_KEY = "oidc_states"
STATE_MAX_AGE_SECONDS = 600
"""How long a login at the provider may take."""

MAX_NEXT_URL_LENGTH = 1000
"""Characters of a return address; it is in a cookie, which also holds the logins in
progress."""

MAX_ERROR_LENGTH = 200


@dataclass(frozen=True)
class OidcLogin:
    """The login of one scope."""

    verifier: TokenVerifier
    root: str
    """The path prefix of the scope's pages."""
    default_next_url: str
    """The page after a login that requested no page."""
    url_name: str
    """The name of the callback view."""
    user_from_claims: Callable[[Mapping[str, Any]], Any]
    """Returns the user of a set of claims."""

    @property
    def redirect_url(self) -> str:
        return self.verifier.oidc.redirect_url

    def is_callback_path(self, path: str) -> bool:
        return path == urlsplit(self.redirect_url).path

    def setting(self, name: str, *default: Any) -> Any:
        """Return a setting of mozilla-django-oidc; raises `IdentityProviderDown`."""
        oidc = self.verifier.oidc
        match name:
            case "OIDC_RP_CLIENT_ID":
                return oidc.client_id
            case "OIDC_RP_SCOPES":
                return " ".join(dict.fromkeys(("openid", *oidc.scopes)))
            case "OIDC_OP_AUTHORIZATION_ENDPOINT":
                return self.verifier.provider.fetch_metadata().authorization_endpoint
            case "OIDC_AUTHENTICATION_CALLBACK_URL":
                return self.url_name
            case "OIDC_USE_PKCE" | "OIDC_USE_NONCE":
                return True
            case "LOGIN_REDIRECT_URL":
                return self.default_next_url
        return import_from_settings(name, *default)


class LoginRequestView(OIDCAuthenticationRequestView):  # type: ignore[misc]  # is untyped
    """Redirects a user to the provider."""

    login: OidcLogin

    def __init__(self, login: OidcLogin, *, next_url: str) -> None:
        self.login = login
        self.next_url = next_url
        """The page that the user requested."""
        super().__init__()

    def get_settings(self, attr: str, *args: Any) -> Any:
        return self.login.setting(attr, *args)

    def get_extra_params(self, request: HttpRequest) -> dict[str, str]:
        # Not built from the Host header, which clients control.
        return {"redirect_uri": self.login.redirect_url}

    def get(self, request: HttpRequest) -> HttpResponse:
        response: HttpResponse = super().get(request)
        path, login = self.next_url.partition("?")[0], self.login
        is_circle = login.is_callback_path(path) and path != login.default_next_url
        # An address that begins with a path cannot lead to another site.
        is_allowed = self.next_url.startswith(login.root) and not is_circle
        is_allowed = is_allowed and len(self.next_url) <= MAX_NEXT_URL_LENGTH
        request.session["oidc_login_next"] = self.next_url if is_allowed else None
        return response


class LoginCallbackView(OIDCAuthenticationCallbackView):  # type: ignore[misc]  # is untyped
    """Handles the provider's callback."""

    login: OidcLogin
    user: Any

    def __init__(self, login: OidcLogin) -> None:
        self.login = login
        super().__init__()

    def get_settings(self, attr: str, *args: Any) -> Any:
        return self.login.setting(attr, *args)

    def get(self, request: HttpRequest) -> HttpResponseBase:
        """Complete the login; raises `LoginFailed`, `CredentialRefused` and
        `IdentityProviderDown`."""
        self._check_state(request)
        request.oidc_login = self.login  # type: ignore[attr-defined]  # for Backend
        response: HttpResponseBase = super().get(request)
        return response

    def _check_state(self, request: HttpRequest) -> None:
        states = request.session.get(STATES_KEY)
        state = states.get(request.GET.get("state")) if states else None
        if state is None or time.time() - state["added_on"] > STATE_MAX_AGE_SECONDS:
            raise LoginFailed(
                "This login has expired, or was started in another browser"
            )
        # Prevents mix-up attacks between two providers of this server (RFC 9207).
        issuer = request.GET.get("iss")
        if issuer not in (None, self.login.verifier.provider.fetch_metadata().issuer):
            raise LoginFailed("The response is from another identity provider")

    def login_failure(self) -> HttpResponseBase:
        parameters = self.request.GET
        reason = parameters.get("error_description") or parameters.get("error")
        raise LoginFailed(
            f"The identity provider refused the login: {reason[:MAX_ERROR_LENGTH]}"
            if reason
            else None
        )


class OidcBackend(OIDCAuthenticationBackend):  # type: ignore[misc]  # is untyped
    """Finds the user of a provider's claims."""

    login: OidcLogin

    def __init__(self) -> None:
        # The login provides all settings that it would read.
        self.UserModel = get_user_model()

    def get_settings(self, attr: str, *args: Any) -> Any:
        return self.login.setting(attr, *args)

    def authenticate(self, request: HttpRequest | None, **options: Any) -> Any:
        login = getattr(request, "oidc_login", None)
        if login is None:
            return None
        self.login = login
        self.OIDC_RP_CLIENT_ID = login.verifier.oidc.client_id
        self.OIDC_RP_CLIENT_SECRET = None
        return super().authenticate(request, **options)

    def get_token(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Exchange the code for tokens."""
        oidc = self.login.verifier.oidc
        metadata = self.login.verifier.provider.fetch_metadata()
        form = {name: value for name, value in payload.items() if value is not None}
        form["redirect_uri"] = self.login.redirect_url
        headers = {}
        if oidc.client_secret is not None:
            secret = oidc.client_secret.get_secret_value()
            if "client_secret_basic" in metadata.token_auth_methods:
                headers["Authorization"] = basic_auth_header(oidc.client_id, secret)
            else:
                form["client_secret"] = secret
        status, body = oidc_http.post_form(
            metadata.token_endpoint, form, headers=headers
        )
        if status != 200 or not isinstance(body.get("id_token"), str):
            reason = str(body.get("error_description") or body.get("error") or status)
            raise IdentityProviderBroken(
                "The identity provider did not issue a token: "
                f"{reason[:MAX_ERROR_LENGTH]}"
            )
        return body

    def verify_token(self, token: str, **options: Any) -> dict[str, Any]:
        return self.login.verifier.verify_id_token(token, nonce=options.get("nonce"))

    def get_or_create_user(
        self, access_token: str, id_token: str, payload: dict[str, Any]
    ) -> Any:
        return self.login.user_from_claims(payload)


def basic_auth_header(client_id: str, secret: str) -> str:
    """Return a client's credentials as a header (RFC 6749, 2.3.1)."""
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return f"Basic {b64encode(pair.encode()).decode()}"
