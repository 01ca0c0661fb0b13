"""A provider with scripted faults, over raw TCP.

    with FaultServer() as server:
        server.then(faults.status(429, retry_after=2), faults.reply("Hello"))
        provider = server.provider("openai")        # or server.entry(...) for YAML
        ...
        assert len(server.requests) == 2
        server.wait(lambda: server.open == 0)       # the client has closed them all

Each request uses up one fault, in order; later requests get `server.default`, a valid
reply. The server runs in a separate thread, so it serves synchronous tests too.
"""

import asyncio
import contextlib
import datetime
import socket
import ssl
import tempfile
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from testing.http_server import FakeServer, read_request
from tests.providers.faults import CUT, HANG, Fault, Pause, Request, Step, reply

KEY = "sk-fault-0123456789"


@dataclass
class FaultServer(FakeServer):
    """The server and its script."""

    key = KEY

    greeting: tuple[Step, ...] = ()
    """What the server sends before the first request."""
    secure: bool = False
    """Whether to use TLS, with an untrusted certificate."""
    default: Fault = field(default_factory=reply)
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    """The number of connections opened."""
    open: int = 0
    """The number of open connections."""

    def __post_init__(self) -> None:
        super().__init__()
        self._script: deque[Fault] = deque()

    @property
    def root_url(self) -> str:
        """Return the address for the kind `anthropic`."""
        return f"http{'s' if self.secure else ''}://127.0.0.1:{self._port}"

    def then(self, *faults: Fault) -> None:
        """Add faults to the script, one per request."""
        self._script.extend(faults)

    def _count(self, change: int) -> None:
        self.open += change
        self.connections += max(change, 0)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(
            self._talk,
            "127.0.0.1",
            self._port,
            ssl=_untrusted() if self.secure else None,
            backlog=256,
        )

    async def _talk(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._update(lambda: self._count(1))
        try:
            if self.greeting and not await self._act(self.greeting, reader, writer):
                return
            while (read := await read_request(reader)) is not None:
                request = Request(read[0].path, read[0].headers, read[1])
                self._update(partial(self.requests.append, request))
                if not await self._serve(request, reader, writer):
                    return
        except (ConnectionError, asyncio.CancelledError, ssl.SSLError):
            pass
        finally:
            writer.transport.abort()
            self._update(lambda: self._count(-1))

    async def _serve(
        self,
        request: Request,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Apply a fault; return whether the connection stays usable."""
        fault = self._script.popleft() if self._script else self.default
        acting = asyncio.ensure_future(self._act(fault(request), reader, writer))
        # Clients send their next request after the response, so a byte now is not one.
        leaving = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({acting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not acting.done():
                self._update(lambda: setattr(request, "left", True))
                return False
            return acting.result()
        except ConnectionError:
            self._update(lambda: setattr(request, "left", True))
            return False
        finally:
            acting.cancel()
            leaving.cancel()
            await asyncio.gather(acting, leaving, return_exceptions=True)

    async def _act(
        self,
        steps: Iterable[Step],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        for step in steps:
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            elif isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
            elif step == HANG:
                await self._released.wait()
            else:
                await _close(writer, reset=step == CUT)
                return False
        return True


async def _close(writer: asyncio.StreamWriter, *, reset: bool) -> None:
    if not reset:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        return
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


def _untrusted() -> ssl.SSLContext:
    """Return a TLS context with a self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    today = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context.load_cert_chain(path)
    return context
