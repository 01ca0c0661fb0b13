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
    "This server requires a username and a password: send them with HTTP Basic "
    "authentication"
)


@dataclass(frozen=True, slots=True)
class BasicCredentials:
    username: str
    password: str


def _decode_header(header: str) -> list[BasicCredentials]:
    """Return the possible credentials of a header; empty if it is not valid Basic.

    The bytes are UTF-8 or, from older clients, Latin-1. RFC 7617 allows both, so a
    header may have two readings.
    """
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "basic":
        return []
    try:
        raw = base64.b64decode(text.strip().encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        return []
    readings = []
    for encoding in ("utf-8", "latin-1"):
        try:
            username, colon, password = raw.decode(encoding).partition(":")
        except UnicodeDecodeError:
            continue
        reading = BasicCredentials(username.strip(), password)
        if colon and reading not in readings:
            readings.append(reading)
    return readings


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
    """Keyed by network: a failure counts once per network."""
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
        self._decoy_hash = next(iter(self._hashed.values()), None)
        self._decoy_digest = SecretDigest(os.urandom(DIGEST_BYTES))
        # Keys are digests of headers, so a hash is computed once. Failed guesses evict
        # each other.
        self._accepted: dict[bytes, str] = {}
        self._rejected: dict[bytes, None] = {}
        self._running: dict[bytes, SharedCheck] = {}
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
                f"{CREDENTIALS_REQUIRED}, not with another scheme",
                challenge=self.challenge,
            )
        if len(header) > MAX_HEADER_LENGTH:
            raise self._refusal()
        return hmac.digest(self._key, header.encode("utf-8", "replace"), "sha256")

    def _cached_username(self, key: bytes, address: str) -> str | None:
        """Return the username of a login that this address has used before.

        A login from another address passes the throttle first. Otherwise an attacker
        would see at once which guess is right.
        """
        username = self._accepted.get(key)
        if username is not None and self._throttle.is_known_address(address, username):
            return username
        return None

    async def _admit(
        self, key: bytes, readings: list[BasicCredentials], address: str
    ) -> str:
        if not readings:
            raise self._refusal()
        name = readings[0].username
        check = self._running.get(key)
        if check is None:
            check = self._start_check(key, readings, address, name)
        elif (network := client_network(address)) in check.attempts:
            self._throttle.check(address, name)
        else:
            check.attempts[network] = self._throttle.begin(address, name)
        username = await asyncio.shield(check.result)
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
        check = self._running[key] = SharedCheck(attempts, result)
        return check

    async def _verify(
        self,
        key: bytes,
        readings: list[BasicCredentials],
        attempts: dict[str, LoginAttempt],
    ) -> str | None:
        """Return the owner of the password, and report the result to the throttle."""
        try:
            username = await self._find_username(key, readings)
        except BaseException:
            for attempt in attempts.values():
                self._throttle.withdraw(attempt)
            raise
        finally:
            del self._running[key]
        for attempt in attempts.values():
            if username is None:
                self._throttle.fail(attempt)
            else:
                self._throttle.succeed(attempt, username)
        return username

    async def _find_username(
        self, key: bytes, readings: list[BasicCredentials]
    ) -> str | None:
        if key in self._accepted or key in self._rejected:
            return self._accepted.get(key)
        if self._decoy_hash is None:
            username = self._match_readings(readings)
        else:
            username = await _hash_pool.run(self._match_readings, readings)
        if username is None:
            _put_bounded(self._rejected, key, None)
        else:
            _put_bounded(self._accepted, key, username)
        return username

    def _match_readings(self, readings: list[BasicCredentials]) -> str | None:
        """Return the username of the first valid reading; computes hashes."""
        valid = (reading.username for reading in readings if self._is_valid(reading))
        return next(valid, None)

    def _is_valid(self, credentials: BasicCredentials) -> bool:
        expected = self._plain.get(credentials.username, self._decoy_digest)
        if expected.matches(credentials.password):
            return True
        if self._decoy_hash is None:
            return False
        stored = self._hashed.get(credentials.username)
        matches = hashers.check_password(
            credentials.password, stored or self._decoy_hash
        )
        return matches and stored is not None

    def _refusal(self) -> CredentialRefused:
        return CredentialRefused(
            "The username or the password is wrong", challenge=self.challenge
        )


def _retrieve_exception(task: "asyncio.Task[str | None]") -> None:
    """Read the exception, which asyncio would log if no request waits for it."""
    if not task.cancelled():
        task.exception()


def _put_bounded(cache: dict[bytes, T], key: bytes, value: T) -> None:
    """Add to a cache; evict the oldest entry if it is full."""
    while len(cache) >= MAX_CACHED:
        cache.pop(next(iter(cache)), None)
    cache[key] = value
