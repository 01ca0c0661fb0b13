"""HTTP Basic: usernames and passwords in the `Authorization` header.

Nobody learns from the time an answer takes which usernames there are: an unknown one
costs what a wrong password does. Source: RFC 7617.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from django.contrib.auth import hashers

from access.auth_config import Login, is_hash
from access.errors import CredentialRefused, CredentialRequired, TooManyGuesses

MAX_HEADER = 4096
"""Characters; a longer header is no username and password."""

MAX_REMEMBERED = 1024
MAX_WAITING = 32
"""Passwords to be checked against hashes at a time; more are not waited for."""

DIGEST_BYTES = 32

WANTED = (
    "This server asks for a username and a password: send them as HTTP Basic "
    "authentication"
)

_hashing = ThreadPoolExecutor(1, "passwords")
"""One password at a time: a hash is made to cost, and turns need the processor too."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a header says."""

    username: str
    password: str


def _readings(header: str) -> list[Given]:
    """Return what a header's value may say; empty if it is not Basic or says nothing.

    The bytes are UTF-8 or, from clients that know no better, Latin-1: RFC 7617 leaves
    it open, so a value may have two readings.
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
        given = Given(username.strip(), password)
        if colon and given not in found:
            found.append(given)
    return found


class Passwords:
    """The usernames and passwords of one scope."""

    def __init__(self, logins: Iterable[Login], *, realm: str) -> None:
        self.challenge = f'Basic realm="{realm}", charset="UTF-8"'
        self._key = os.urandom(32)
        self._plain: dict[str, bytes] = {}
        self._hashed: dict[str, str] = {}
        for login in logins:
            password = login.password.get_secret_value()
            if is_hash(password):
                self._hashed[login.username] = password
            else:
                self._plain[login.username] = self._digest(login.username, password)
        self._decoy = next(iter(self._hashed.values()), None)
        self._nobody = os.urandom(DIGEST_BYTES)
        # By digests of headers: a hash is computed once. Guesses push out guesses.
        self._right: dict[bytes, str] = {}
        self._wrong: dict[bytes, None] = {}
        self._waiting = 0
        self._lock = threading.Lock()

    async def check(self, header: str | None) -> str:
        """Return whose username and password a header's value has.

        Hashes are computed in a thread. Raises `CredentialRequired` for no value, and
        `CredentialRefused` for a wrong one, whatever is wrong.
        """
        key = self._recognise(header)
        if not self._knows(key):
            if self._waiting >= MAX_WAITING:
                raise TooManyGuesses
            self._waiting += 1
            try:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(_hashing, self._learn, key, header)
            finally:
                self._waiting -= 1
        return self._answer(key)

    def check_here(self, header: str | None) -> str:
        """Do as `check` does, in this thread."""
        key = self._recognise(header)
        if not self._knows(key):
            self._learn(key, header)
        return self._answer(key)

    def _recognise(self, header: str | None) -> bytes:
        """Return what is known of a header by, after a look that costs no hash."""
        if header is None:
            raise CredentialRequired(WANTED, challenge=self.challenge)
        if header.partition(" ")[0].lower() != "basic":
            # OpenAI's clients send what they are given as a bearer token.
            raise CredentialRefused(
                f"{WANTED}, not as another kind", challenge=self.challenge
            )
        if len(header) > MAX_HEADER:
            raise self._refused()
        key = hmac.digest(self._key, header.encode("utf-8", "replace"), "sha256")
        if self._decoy is None and not self._knows(key):
            self._learn(key, header)
        return key

    def _knows(self, key: bytes) -> bool:
        return key in self._right or key in self._wrong

    def _answer(self, key: bytes) -> str:
        username = self._right.get(key)
        if username is None:
            raise self._refused()
        return username

    def _refused(self) -> CredentialRefused:
        return CredentialRefused(
            "The username or the password is wrong", challenge=self.challenge
        )

    def _learn(self, key: bytes, header: str | None) -> None:
        # One at a time in the studio, too, whose threads come here by themselves.
        with self._lock:
            right = [
                given for given in _readings(header or "") if self._is_right(given)
            ]
            if right:
                _put(self._right, key, right[0].username)
            else:
                _put(self._wrong, key, None)

    def _is_right(self, given: Given) -> bool:
        expected = self._plain.get(given.username, self._nobody)
        is_right = hmac.compare_digest(
            self._digest(given.username, given.password), expected
        )
        if is_right or self._decoy is None:
            return is_right
        stored = self._hashed.get(given.username)
        is_right = hashers.check_password(given.password, stored or self._decoy)
        return is_right and stored is not None

    def _digest(self, username: str, password: str) -> bytes:
        text = f"{username}\0{password}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, key=self._key, digest_size=DIGEST_BYTES).digest()


T = TypeVar("T")


def _put(known: dict[bytes, T], key: bytes, value: T) -> None:
    """Add to a memory, from which the oldest gives way."""
    while len(known) >= MAX_REMEMBERED:
        known.pop(next(iter(known)), None)
    known[key] = value
