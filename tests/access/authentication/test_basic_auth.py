"""Checks of usernames and passwords (HTTP Basic), and password hashes."""

import asyncio
import base64
import io
import threading
import time
from collections.abc import Iterator
from itertools import islice

import pytest
from django.core.management import CommandError, call_command

from access.authentication import basic_auth
from access.authentication.basic_auth import PasswordChecker
from access.authentication.login_throttle import LoginThrottle
from access.authentication.schemes import BasicLogin
from access.errors import (
    CredentialRefused,
    CredentialRequired,
    LoginDelayed,
    PasswordChecksBusy,
)

WAIT_SECONDS = 60.0


def header(username: str, password: str) -> str:
    pair = f"{username}:{password}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"


HASHED = "pbkdf2_sha256$1$salt$" + "A" * 43 + "="
HERE = "192.0.2.1"


def passwords(**logins: str) -> PasswordChecker:
    users = [BasicLogin(username=name, password=text) for name, text in logins.items()]
    throttle = LoginThrottle("test", report=lambda burst: None)
    return PasswordChecker(users, realm="test", throttle=throttle)


def addresses() -> Iterator[str]:
    """New addresses, without failures."""
    return (f"198.51.100.{number}" for number in range(255))


async def is_correct(
    checker: PasswordChecker, username: str, password: str, address: str = HERE
) -> bool:
    try:
        return await checker.check(header(username, password), address) == username
    except CredentialRefused:
        return False


@pytest.fixture
def computed(monkeypatch) -> list[str]:
    """The passwords whose hashes are computed; `right` is the correct one."""
    computed = []

    def check_password(given: str, _: str) -> bool:
        computed.append(given)
        return given == "right"

    monkeypatch.setattr(basic_auth.hashers, "check_password", check_password)
    return computed


async def test_failed_guesses_do_not_evict_verified_passwords(monkeypatch, computed):
    monkeypatch.setattr(basic_auth, "MAX_CACHED", 3)
    checker = passwords(ada=HASHED)
    assert await is_correct(checker, "ada", "right")
    for number, address in zip(range(4), addresses(), strict=False):
        assert not await is_correct(checker, "ada", f"wrong-{number}", address)
    assert await is_correct(checker, "ada", "right")
    assert computed.count("right") == 1


async def test_unknown_username_takes_as_long_as_a_wrong_password(
    monkeypatch, computed
):
    checker = passwords(ada=HASHED, bob="plain")
    for username, address in zip(("ada", "bob", "eve"), addresses(), strict=False):
        computed.clear()
        assert not await is_correct(checker, username, "wrong", address)
        assert computed == ["wrong"], username
    # The decoy's password does not work for other usernames.
    assert not await is_correct(checker, "eve", "right")
    assert not await is_correct(checker, "bob", "right")
    assert await is_correct(checker, "bob", "plain")


async def test_unknown_username_is_delayed_like_a_known_one(computed):
    result = {}
    for username in ("ada", "bob", "eve"):
        checker = passwords(ada=HASHED, bob="plain")
        computed.clear()
        for number in range(5):
            assert not await is_correct(checker, username, f"wrong-{number}")
        with pytest.raises(LoginDelayed) as delayed:
            await checker.check(header(username, "wrong"), HERE)
        result[username] = (str(delayed.value), len(computed))
    assert set(result.values()) == {result["ada"]}


async def test_hashes_are_computed_one_at_a_time(monkeypatch):
    running = []

    def check_password(given: str, _: str) -> bool:
        running.append(given)
        assert len(running) == 1
        time.sleep(0.002)  # So that another thread would come in.
        running.remove(given)
        return False

    monkeypatch.setattr(basic_auth.hashers, "check_password", check_password)
    scopes = [passwords(ada=HASHED), passwords(ada=HASHED)]
    guesses = [
        is_correct(scopes[number % 2], "ada", f"wrong-{number}", address)
        for number, address in zip(range(8), addresses(), strict=False)
    ]
    # Some are refused: the number of parallel checks per name is limited.
    found = await asyncio.gather(*guesses, return_exceptions=True)
    assert found.count(False) == 8
    assert not running


async def test_full_hash_queue_is_refused_at_once(monkeypatch):
    monkeypatch.setattr(basic_auth, "MAX_PENDING_HASHES", 0)
    checker = passwords(ada=HASHED)
    for _ in range(6):  # What was not checked is no failure.
        with pytest.raises(PasswordChecksBusy) as refused:
            await checker.check(header("ada", "x"), HERE)
    assert refused.value.retry_after_seconds == 2


async def test_concurrent_requests_with_one_credential_share_a_hash(computed):
    checker = passwords(ada=HASHED)
    requested = [is_correct(checker, "ada", "right") for _ in range(30)]
    assert all(await asyncio.gather(*requested))
    assert computed == ["right"]


async def test_shared_failed_check_counts_for_each_address(computed):
    checker = passwords(ada=HASHED)
    others = list(islice(addresses(), 2))
    for number in range(5):
        given = header(f"name-{number}", "wrong")
        requested = [checker.check(given, address) for address in (HERE, *others)]
        for result in await asyncio.gather(*requested, return_exceptions=True):
            assert isinstance(result, CredentialRefused)
    assert len(computed) == 5
    for address in (HERE, *others):
        with pytest.raises(LoginDelayed):
            await checker.check(header("bob", "wrong"), address)


async def test_shared_failed_check_counts_once_per_address(computed):
    checker = passwords(ada=HASHED)
    requested = [is_correct(checker, "ada", "wrong") for _ in range(30)]
    assert not any(await asyncio.gather(*requested))
    assert await is_correct(checker, "ada", "right")


async def test_check_of_a_disconnected_client_counts_as_failure(monkeypatch):
    may_end = threading.Event()
    monkeypatch.setattr(
        basic_auth.hashers, "check_password", lambda *_: not may_end.wait(WAIT_SECONDS)
    )
    checker = passwords(ada=HASHED)
    for number in range(5):
        may_end.clear()
        asking = asyncio.ensure_future(is_correct(checker, "ada", f"wrong-{number}"))
        await asyncio.sleep(0)
        asking.cancel()
        may_end.set()
        await asyncio.gather(*(check.result for check in checker._running.values()))
    with pytest.raises(LoginDelayed):
        await checker.check(header("ada", "wrong"), HERE)


async def test_parallel_guesses_of_one_address_are_limited(monkeypatch):
    """Many are sent at once, before the first is checked."""
    may_end = threading.Event()
    computed = []

    def check_password(given: str, _: str) -> bool:
        computed.append(given)
        may_end.wait(WAIT_SECONDS)
        return False

    monkeypatch.setattr(basic_auth.hashers, "check_password", check_password)
    checker = passwords(ada=HASHED)
    guesses = [
        asyncio.ensure_future(is_correct(checker, "ada", f"wrong-{number}"))
        for number in range(50)
    ]
    _, waiting = await asyncio.wait(guesses, return_when=asyncio.FIRST_COMPLETED)
    assert len(waiting) == 5
    may_end.set()
    found = await asyncio.gather(*guesses, return_exceptions=True)
    assert found.count(False) == 5
    assert sum(isinstance(each, LoginDelayed) for each in found) == 45
    assert len(computed) == 5


async def test_delayed_address_learns_nothing_from_a_right_guess(computed):
    checker = passwords(ada=HASHED)
    assert await is_correct(checker, "ada", "right", HERE)
    for number in range(5):
        assert not await is_correct(checker, "ada", f"wrong-{number}", "198.51.100.9")
    with pytest.raises(LoginDelayed):
        await checker.check(header("ada", "right"), "198.51.100.9")
    assert await is_correct(checker, "ada", "right", HERE)


async def test_malformed_credential_is_not_a_guess():
    checker = passwords(ada="plain-text")
    for _ in range(9):
        for value in (None, "Bearer x", "Basic", "Basic !", "Basic " + "x" * 5_000):
            with pytest.raises((CredentialRequired, CredentialRefused)):
                await checker.check(value, HERE)
    assert await is_correct(checker, "ada", "plain-text")


async def test_hash_password_output_is_accepted(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("pass word\n"))
    call_command("hash-password")
    printed, warned = capsys.readouterr()
    assert "shorter than 12 characters" in warned
    printed = printed.strip()
    assert await is_correct(passwords(ada=printed), "ada", "pass word")
    monkeypatch.setattr("sys.stdin", io.StringIO("a long pass word\n"))
    call_command("hash-password")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    with pytest.raises(CommandError, match="empty"):
        call_command("hash-password")
