"""HTTP Basic: usernames and passwords in the `Authorization` header.

Response times do not reveal which usernames exist: an unknown one costs what a wrong
password does. Source: RFC 7617.
"""

import asyncio
import base64
import binascii
import hmac
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from django.contrib.auth import hashers

from access.authentication.login_throttle import LoginAttempt, LoginThrottle
from access.authentication.schemes import BasicLogin
from access.authentication.secret_digests import SecretDigest
from access.errors import CredentialRefused, CredentialRequired, PasswordChecksBusy
from core.network.client_addresses import client_network

P = ParamSpec("P")
T = TypeVar("T")

MAX_HEADER_LENGTH = 4096
"""Characters; a longer header is refused unread."""

MAX_CACHED = 1024
MAX_PENDING_HASHES = 16
"""Passwords that may wait for their hash at a time; further ones are refused.

A hash takes up to half a second, so the last one waits for some eight.
"""

DIGEST_BYTES = 32

CREDENTIALS_REQUIRED = (
    "This server asks for a username and a password: send them as HTTP Basic "
    "authentication"
)


@dataclass(frozen=True, slots=True)
class BasicCredentials:
    """The username and password of a header."""

    username: str
    password: str


def _decode_header(header: str) -> list[BasicCredentials]:
    """Return the possible credentials of a header; empty if it is not valid Basic.

    The bytes are UTF-8 or, from older clients, Latin-1: RFC 7617 leaves it open, so a
    value may have two readings.
    """
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "basic":
        return []
    try:
        raw = base64.b64decode(text.strip().encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        return []
    found = []
    for encoding in ("utf-8", "latin-1"):
        try:
            username, colon, password = raw.decode(encoding).partition(":")
        except UnicodeDecodeError:
            continue
        given = BasicCredentials(username.strip(), password)
        if colon and given not in found:
            found.append(given)
    return found


class HashPool:
    """Computes hashes in a thread of its own, for all scopes together."""

    def __init__(self) -> None:
        # One thread: hashes are slow by design, and turns need the processor, too.
        self._thread = ThreadPoolExecutor(1, "passwords")
        self._waiting = 0

    def __len__(self) -> int:
        """Return how many calls run or wait."""
        return self._waiting

    async def run(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a function in the thread; raises `PasswordChecksBusy` if the queue is
        full."""
        if self._waiting >= MAX_PENDING_HASHES:
            raise PasswordChecksBusy
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            call = partial(function, *args, **kwargs)
            return await loop.run_in_executor(self._thread, call)
        finally:
            self._waiting -= 1


_hash_pool = HashPool()


@dataclass(slots=True)
class SharedCheck:
    """A running check, and the addresses that wait for its result."""

    attempts: dict[str, LoginAttempt]
    """By network: a failure counts once for each network."""
    result: asyncio.Task[str | None]


class PasswordChecker:
    """Checks the usernames and passwords of one scope; used by one event loop."""

    def __init__(
        self, logins: Iterable[BasicLogin], *, realm: str, throttle: LoginThrottle
    ) -> None:
        self.challenge = f'Basic realm="{realm}", charset="UTF-8"'
        self._throttle = throttle
        self._key = os.urandom(32)
        self._plain: dict[str, SecretDigest] = {}
        self._hashed: dict[str, str] = {}
        for login in logins:
            if isinstance(login.password, SecretDigest):
                self._plain[login.username] = login.password
            else:
                self._hashed[login.username] = login.password.get_secret_value()
        self._decoy = next(iter(self._hashed.values()), None)
        self._nobody = SecretDigest(os.urandom(DIGEST_BYTES))
        # Keys are digests of headers, so a hash is computed once. Failed guesses evict
        # each other.
        self._right: dict[bytes, str] = {}
        self._wrong: dict[bytes, None] = {}
        self._checking: dict[bytes, SharedCheck] = {}
        """Running checks: requests with the same header share one."""

    async def check(self, header: str | None, address: str) -> str:
        """Return the username of a header's value.

        Raises `CredentialRequired` for no value, `CredentialRefused` for a wrong one,
        `LoginDelayed` after too many of them, and `PasswordChecksBusy` while too many
        hashes wait.
        """
        key = self._digest(header)
        username = self._cached_username(key, address)
        if username is None:
            username = await self._admit(key, _decode_header(header or ""), address)
        return username

    def check_cached(self, header: str | None, address: str) -> str:
        """Check as `check` does, but refuse headers without a cached result."""
        username = self._cached_username(self._digest(header), address)
        if username is None:
            raise self._refusal()
        return username

    def _digest(self, header: str | None) -> bytes:
        """Return the cache key of a header."""
        if header is None:
            raise CredentialRequired(CREDENTIALS_REQUIRED, challenge=self.challenge)
        if header.partition(" ")[0].lower() != "basic":
            # OpenAI's clients send their API key as a bearer token.
            raise CredentialRefused(
                f"{CREDENTIALS_REQUIRED}, not as another kind", challenge=self.challenge
            )
        if len(header) > MAX_HEADER_LENGTH:
            raise self._refusal()
        return hmac.digest(self._key, header.encode("utf-8", "replace"), "sha256")

    def _cached_username(self, key: bytes, address: str) -> str | None:
        """Return the username of a login that this address has used before.

        A login from another address passes the throttle first: otherwise a guessing
        client would see at once which guess is right.
        """
        username = self._right.get(key)
        if username is not None and self._throttle.is_known_address(address, username):
            return username
        return None

    async def _admit(
        self, key: bytes, readings: list[BasicCredentials], address: str
    ) -> str:
        if not readings:
            raise self._refusal()
        name = readings[0].username
        checking = self._checking.get(key)
        if checking is None:
            checking = self._start_check(key, readings, address, name)
        elif (network := client_network(address)) in checking.attempts:
            self._throttle.check(address, name)
        else:
            checking.attempts[network] = self._throttle.begin(address, name)
        username = await asyncio.shield(checking.result)
        if username is None:
            raise self._refusal()
        self._throttle.remember_address(address, username)
        return username

    def _start_check(
        self, key: bytes, readings: list[BasicCredentials], address: str, name: str
    ) -> SharedCheck:
        attempt = self._throttle.begin(address, name)
        attempts = {attempt.network: attempt}
        # The check completes even if the client leaves, so that a failure counts.
        result = asyncio.create_task(self._verify(key, readings, attempts))
        result.add_done_callback(_retrieve_exception)
        checking = self._checking[key] = SharedCheck(attempts, result)
        return checking

    async def _verify(
        self,
        key: bytes,
        readings: list[BasicCredentials],
        attempts: dict[str, LoginAttempt],
    ) -> str | None:
        """Return the owner of the password, and report the result to the throttle."""
        try:
            username = await self._find(key, readings)
        except BaseException:
            for attempt in attempts.values():
                self._throttle.withdraw(attempt)
            raise
        finally:
            del self._checking[key]
        for attempt in attempts.values():
            if username is None:
                self._throttle.fail(attempt)
            else:
                self._throttle.succeed(attempt, username)
        return username

    async def _find(self, key: bytes, readings: list[BasicCredentials]) -> str | None:
        if key in self._right or key in self._wrong:
            return self._right.get(key)
        if self._decoy is None:
            username = self._find_owner(readings)
        else:
            username = await _hash_pool.run(self._find_owner, readings)
        if username is None:
            _put_bounded(self._wrong, key, None)
        else:
            _put_bounded(self._right, key, username)
        return username

    def _find_owner(self, readings: list[BasicCredentials]) -> str | None:
        """Return the user whose password matches one of the readings; computes
        hashes."""
        right = (given.username for given in readings if self._matches(given))
        return next(right, None)

    def _matches(self, given: BasicCredentials) -> bool:
        expected = self._plain.get(given.username, self._nobody)
        is_right = expected.matches(given.password)
        if is_right or self._decoy is None:
            return is_right
        stored = self._hashed.get(given.username)
        is_right = hashers.check_password(given.password, stored or self._decoy)
        return is_right and stored is not None

    def _refusal(self) -> CredentialRefused:
        return CredentialRefused(
            "The username or the password is wrong", challenge=self.challenge
        )


def _retrieve_exception(checking: "asyncio.Task[str | None]") -> None:
    """Read the exception, which asyncio would log if no request waits for it."""
    if not checking.cancelled():
        checking.exception()


def _put_bounded(known: dict[bytes, T], key: bytes, value: T) -> None:
    """Add to a cache; evict the oldest entry if it is full."""
    while len(known) >= MAX_CACHED:
        known.pop(next(iter(known)), None)
    known[key] = value
