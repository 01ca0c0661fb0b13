"""A real OpenID provider with its own keys, which tests can make fail.

with IdentityProvider() as provider:
    provider.issuer              # for coulisse.yaml
    provider.sign(sub="ada")     # a bearer token
    provider.subject = "ada"     # the logged-in user, in any browser
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

CLIENT = "coulisse"
SECRET = "client-secret"

# Making one takes longer than a test should.
RSA = [rsa.generate_private_key(65537, 2048) for _ in range(2)]


class IdentityProvider:
    """The provider, for the duration of the block."""

    def __init__(self) -> None:
        self.subject = "ada"
        self.keys: dict[str, Any] = {"one": RSA[0]}
        self.extra_keys: list[dict[str, Any]] = []
        self.auth_methods: list[str] | None = ["client_secret_basic"]
        self.status = 200
        """The status of every response; 0 disconnects."""
        self.claims: dict[str, Any] = {}
        """Overrides for the claims of ID tokens."""
        self.issuer_says: str | None = None
        self.endpoints: dict[str, str] = {}
        """Overrides for the published metadata."""
        self.denial: str | None = None
        self.hits: list[str] = []
        self.codes: dict[str, dict[str, str]] = {}

    def __enter__(self) -> Self:
        place = self

        class Answerer(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                place._answer(self, "")

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                place._answer(self, self.rfile.read(length).decode())

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answerer)
        self._server.daemon_threads = True
        self.issuer = f"http://127.0.0.1:{self._server.server_port}/realm"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def sign(self, *, kid: str = "one", alg: str = "RS256", **claims: Any) -> str:
        """Return a token; claims with the value None are omitted."""
        now = int(time.time())
        known = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": self.subject,
            "iat": now,
            "exp": now + 300,
            **claims,
        }
        message = {name: value for name, value in known.items() if value is not None}
        return jwt.encode(message, self.keys[kid], algorithm=alg, headers={"kid": kid})

    def rotate(self) -> None:
        """Sign with a new key, under a new key name, from now on."""
        self.keys = {"two": RSA[1]}

    def add_elliptic(self, kid: str) -> None:
        self.keys[kid] = ec.generate_private_key(ec.SECP256R1())

    def _answer(self, http: BaseHTTPRequestHandler, body: str) -> None:
        parts = urlsplit(http.path)
        self.hits.append(parts.path)
        if not self.status:
            http.close_connection = True
            http.connection.close()
            return
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        form = {name: values[0] for name, values in parse_qs(body).items()}
        match parts.path:
            case "/realm/.well-known/openid-configuration":
                self._json(http, self._discovery())
            case "/realm/keys":
                self._json(
                    http, {"keys": [*map(self._jwk, self.keys), *self.extra_keys]}
                )
            case "/realm/authorize":
                self._redirect(http, self._consent(query))
            case "/realm/token":
                self._json(http, self._exchange(form, http.headers))
            case _:
                self._json(http, {}, status=404)

    def _discovery(self) -> dict[str, Any]:
        methods = self.auth_methods
        return {
            "issuer": self.issuer_says or self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            **self.endpoints,
            **(
                {}
                if methods is None
                else {"token_endpoint_auth_methods_supported": methods}
            ),
        }

    def _jwk(self, kid: str) -> dict[str, Any]:
        key = self.keys[kid]
        is_rsa = isinstance(key, rsa.RSAPrivateKey)
        made = (RSAAlgorithm if is_rsa else ECAlgorithm).to_jwk(key.public_key())
        return {**json.loads(made), "kid": kid, "use": "sig"}

    def _consent(self, requested: dict[str, str]) -> str:
        assert requested["client_id"] == CLIENT
        assert requested["response_type"] == "code"
        assert requested["code_challenge_method"] == "S256"
        assert "openid" in requested["scope"].split()
        back = {"state": requested["state"], "iss": self.issuer}
        if self.denial is not None:
            back |= {"error": "access_denied", "error_description": self.denial}
        else:
            code = back["code"] = secrets.token_urlsafe(16)
            self.codes[code] = {**requested, "sub": self.subject}
        return f"{requested['redirect_uri']}?{urlencode(back)}"

    def _exchange(self, form: dict[str, str], headers: Any) -> dict[str, Any]:
        requested = self.codes.pop(form.get("code", ""), None)
        if requested is None or form["redirect_uri"] != requested["redirect_uri"]:
            return {"error": "invalid_grant"}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if (
            base64.urlsafe_b64encode(digest).decode().rstrip("=")
            != requested["code_challenge"]
        ):
            return {"error": "invalid_grant", "error_description": "wrong verifier"}
        if not self._is_client(form, headers.get("Authorization", "")):
            return {"error": "invalid_client"}
        claims = {"sub": requested["sub"], "nonce": requested["nonce"], **self.claims}
        (kid, *_) = self.keys
        return {
            "access_token": secrets.token_urlsafe(16),
            "token_type": "Bearer",
            "id_token": self.sign(kid=kid, **claims),
        }

    def _is_client(self, form: dict[str, str], header: str) -> bool:
        if self.auth_methods is None or "client_secret_basic" in self.auth_methods:
            pair = base64.b64decode(header.removeprefix("Basic ")).decode()
            client, _, secret = map(unquote, pair.partition(":"))
            return (client, secret) == (CLIENT, SECRET)
        if self.auth_methods == ["none"]:
            return form["client_id"] == CLIENT and "client_secret" not in form
        return form.get("client_secret") == SECRET

    def _json(
        self, http: BaseHTTPRequestHandler, content: Any, status: int | None = None
    ) -> None:
        failed = isinstance(content, dict) and "error" in content
        body = json.dumps(content).encode()
        http.send_response(status or (400 if failed else self.status))
        http.send_header("Content-Type", "application/json")
        http.send_header("Content-Length", str(len(body)))
        http.end_headers()
        http.wfile.write(body)

    def _redirect(self, http: BaseHTTPRequestHandler, location: str) -> None:
        http.send_response(302)
        http.send_header("Location", location)
        http.send_header("Content-Length", "0")
        http.end_headers()
