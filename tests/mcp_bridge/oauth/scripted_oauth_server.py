"""A scripted MCP server and authorization server, over real HTTP.

with ScriptedOAuthServer() as place:
    place.answer("/token", {"error": "invalid_grant"}, status=400)
    place.received("/token")     # the forms that were posted there
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.mcp_bridge.conftest import TEST_SECONDS

RESOURCE = "/.well-known/oauth-protected-resource"
ISSUER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


class ScriptedOAuthServer:
    """An MCP server and its authorization server; valid by default."""

    def __init__(self) -> None:
        self.released = threading.Event()
        """Set at the end: releases hanging answers."""
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        """Method, path, headers and content."""
        self._answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self._hanging: set[str] = set()
        place = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                place._serve(self)

            do_POST = do_GET  # noqa: N815  (its name for it)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        self.url = f"{self.origin}/mcp"
        self._set_default_answers()

    def _set_default_answers(self) -> None:
        self.answer("/mcp", {}, status=401)
        resource = {"resource": self.url, "authorization_servers": [self.origin]}
        self.answer(f"{RESOURCE}/mcp", resource)
        self.answer(ISSUER, self.metadata())
        registered = {"client_id": "app-1", "client_secret": "app-secret"}
        self.answer("/register", registered, status=201)
        self.answer("/token", self.tokens())

    def metadata(self, **changes: Any) -> dict[str, Any]:
        """Return the metadata with changes; None removes a field."""
        whole = {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
            "code_challenge_methods_supported": ["S256"],
            **changes,
        }
        return {name: value for name, value in whole.items() if value is not None}

    def tokens(self, **changes: Any) -> dict[str, Any]:
        """Return a token response with changes."""
        whole = {
            "access_token": "access-1",
            "token_type": "Bearer",
            "expires_in": 3600,
            "refresh_token": "refresh-1",
            **changes,
        }
        return {name: value for name, value in whole.items() if value is not None}

    def answer(
        self, path: str, content: Any, *, status: int = 200, **headers: str
    ) -> None:
        """Answer a path with JSON, or with unchanged bytes."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        self._answers[path] = status, fields, body

    def hang(self, path: str) -> None:
        """Never answer a path."""
        self._hanging.add(path)

    def received(self, path: str) -> list[Any]:
        """Return the forms or JSON posted to a path."""
        return [content for _, at, _, content in self.requests if at == path]

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path
        length = int(request.headers.get("Content-Length") or 0)
        raw = request.rfile.read(length)
        is_form = "urlencoded" in (request.headers.get("Content-Type") or "")
        content = (
            dict(parse_qsl(raw.decode())) if is_form else json.loads(raw or "null")
        )
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append((request.command, path, headers, content))
        if path in self._hanging:
            self.released.wait(TEST_SECONDS)
        missing: tuple[int, dict[str, str], bytes] = (404, {}, b"{}")
        status, more, body = self._answers.get(path, missing)
        try:
            request.send_response(status)
            for name, value in {"Content-Type": "application/json", **more}.items():
                request.send_header(name, value)
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
        except ConnectionError:
            request.close_connection = True  # The client did not wait.

    def __enter__(self) -> "ScriptedOAuthServer":
        serving = threading.Thread(
            target=lambda: self._server.serve_forever(0.01), daemon=True
        )
        serving.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
