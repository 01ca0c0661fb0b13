"""The `auth` section of the YAML."""

import asyncio
import base64
import io
import pickle
import re
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from django.contrib.auth.hashers import make_password
from django.core.management import CommandError, call_command

from access import checks
from access.authentication import basic_auth
from access.authentication.basic_auth import PasswordChecker
from access.authentication.config import AUTH
from access.authentication.login_throttle import LoginThrottle
from access.authentication.schemes import BasicLogin
from access.errors import (
    CredentialRefused,
    CredentialRequired,
    LoginDelayed,
    PasswordChecksBusy,
)
from config.errors import ConfigInvalid
from config.loading import loader, secret_values
from config.validation import schema_paths

WAIT_SECONDS = 60.0

YAML = """
providers: {openai: {api_key: k}}
agents: [{name: a, provider: openai, model: m}]
auth: AUTH
"""

OIDC = "issuer_url: 'https://id.example.com/', client_id: c, redirect_url: '%s'"
PROXY = OIDC % "http://localhost:8421/v1/"
ADMIN = OIDC % "http://localhost:8421/admin/"
LOCAL = PROXY.replace("https://id.example.com", "http://127.0.0.1:9")


def load(auth: str, more: str = ""):
    text = YAML.replace("AUTH", auth) + more
    return loader.parse_config(text.encode(), Path("coulisse.yaml")).get(AUTH)


def refusal(auth: str, more: str = ""):
    with pytest.raises(ConfigInvalid) as caught:
        load(auth, more)
    (problem,) = caught.value.problems
    return problem


def test_consumer_secret_is_read_and_hidden():
    auth = load("{mcp_consumer_secret: ' the-secret '}")
    assert auth.mcp_consumer_secret.matches("the-secret")
    assert not auth.mcp_consumer_secret.matches(" the-secret ")
    assert "the-secret" not in repr(auth)


@pytest.mark.parametrize("auth", ["", "{}", "{mcp_consumer_secret: ''}"])
def test_empty_auth_sets_nothing(auth):
    found = load(auth)
    assert found.mcp_consumer_secret is found.admin is found.proxy is None


@pytest.mark.parametrize("secret", ["two words", "sécret", "a\\nb"])
def test_non_ascii_secret_is_refused_and_not_shown(secret):
    with pytest.raises(ConfigInvalid, match="must consist of visible ASCII") as caught:
        load(f'{{mcp_consumer_secret: "{secret}"}}')
    assert secret not in str(caught.value)


def clear_texts(value: object) -> set[str]:
    """Return all texts of a pickled value."""
    return set(re.findall(r"[ -~]{3,}", pickle.dumps(value).decode("latin-1")))


def test_passwords_are_not_kept_in_the_clear():
    auth = load(
        "{mcp_consumer_secret: consumer-in-the-clear, "
        "proxy: {basic: {username: ada, password: password-in-the-clear}}, "
        "admin: {basic: [{password: another-in-the-clear}]}}"
    )
    assert any("ada" in text for text in clear_texts(auth))
    assert not [text for text in clear_texts(auth) if "in-the-clear" in text]
    assert list(secret_values.find_secrets(auth)) == []
    assert auth.proxy.logins[0].password.matches("password-in-the-clear")
    assert not auth.proxy.logins[0].password.matches("password-in-the-clear ")


def test_configurations_with_equal_passwords_are_equal():
    text = "{proxy: {basic: {password: long-enough-x}}, mcp_consumer_secret: s3cret}"
    assert load(text) == load(text)
    assert load(text) != load(text.replace("enough-x", "enough-y"))
    assert load(text) != load(text.replace("s3cret", "s4cret"))


def test_schema_marks_digests_as_passwords():
    for place in (
        ("mcp_consumer_secret",),
        *(("proxy", "basic", "password"), ("admin", "basic", 0, "password")),
    ):
        assert schema_paths.is_secret(AUTH.schema, place), place
    assert AUTH.schema["$defs"]["BasicLogin"]["properties"]["password"]["format"] == (
        "password"
    )


@pytest.mark.parametrize("value", ["12345678", "[long-enough-x]", "{a: b}"])
def test_non_text_password_is_refused_and_not_shown(value):
    problem = refusal(f"{{proxy: {{basic: {{password: {value}}}}}}}")
    assert "basic.password' must be text" in problem.message
    assert "12345678" not in problem.message


# Schemes.


def test_single_login_defaults_to_admin():
    (login,) = load("{proxy: {basic: {password: pass-word}}}").proxy.logins
    assert login.username == "admin"
    assert "pass-word" not in repr(login)


def test_several_logins_are_accepted():
    logins = load(
        "{admin: {basic: [{username: ada, password: long-enough-x}, "
        "{username: bob, password: long-enough-y}]}}"
    ).admin.logins
    assert [login.username for login in logins] == ["ada", "bob"]


def test_password_may_be_a_hash():
    hashed = make_password("pass-word")
    (login,) = load(f"{{proxy: {{basic: {{password: '{hashed}'}}}}}}").proxy.logins
    assert login.password.get_secret_value() == hashed


def test_tokens_are_enabled_by_an_empty_map():
    proxy = load("{proxy: {tokens: {}}}").proxy
    assert proxy.tokens is not None
    assert proxy.binds_users


def test_documented_oidc_settings_are_read():
    auth = load(
        "{admin: {oidc: {" + ADMIN + ", client_secret: s, scopes: [email]}}, "
        "proxy: {oidc: {" + PROXY + ", audience: api}, identity: from_credential}}"
    )
    assert auth.admin.oidc.scopes == ("email",)
    assert auth.proxy.oidc.scopes == ("email", "profile")
    assert auth.proxy.oidc.audiences == ("c", "api")
    assert auth.proxy.oidc.client_secret is None
    assert auth.proxy.binds_users


@pytest.mark.parametrize(
    ("auth", "code", "says"),
    [
        ("{proxy: {}}", "E303", "auth.proxy names no scheme; give it 'basic', 'oidc'"),
        ("{admin: {}}", "E303", "auth.admin names no scheme; give it 'basic' or"),
        ("{proxy: }", "E009", "'proxy' is empty: give it a scheme, or remove it"),
        ("{proxy: {tokens: }}", "E303", "names no scheme"),
        (
            "{proxy: {tokens: {}, basic: {password: long-enough-x}}}",
            "E303",
            "auth.proxy has 'basic' and 'tokens', but a scope has exactly one scheme",
        ),
        (
            f"{{admin: {{oidc: {{{ADMIN}}}, basic: {{password: long-enough-x}}}}}}",
            "E303",
            "has 'basic' and 'oidc'",
        ),
        ("{admin: {tokens: {}}}", "E009", "move 'tokens' to auth.proxy"),
        (
            "{admin: {basic: {password: long-enough-x}, identity: from_credential}}",
            "E009",
            "'admin' cannot have 'identity'",
        ),
        (
            "{proxy: {tokens: {}, identity: from_credential}}",
            "E304",
            "remove 'identity'",
        ),
        ("{proxy: {tokens: {at: 1}}}", "E011", "'proxy.tokens.at' is not a known"),
        ("{proxy: {basic: {username: u}}}", "E010", "password' is missing"),
        ("{proxy: {basic: {password: ''}}}", "E009", "must not be empty"),
        ("{proxy: {basic: {password: '  '}}}", "E009", "must not be empty"),
        (
            "{proxy: {basic: {username: ' ', password: long-enough-x}}}",
            "E009",
            "username'",
        ),
        (
            "{proxy: {basic: {username: 'a:b', password: long-enough-x}}}",
            "E009",
            "colon",
        ),
        ("{proxy: {basic: []}}", "E303", "is an empty list"),
        (
            "{proxy: {basic: "
            "[{username: a, password: long-enough-x}, "
            "{username: a, password: long-enough-y}]}}",
            "E306",
            "has the username 'a' twice",
        ),
        ("{proxy: {basic: {password: 'pbkdf2_sha256$1'}}}", "E009", "hash-password"),
        ("{proxy: {basic: {password: seven77}}}", "E308", "shorter than 8 characters"),
        ("{admin: {basic: [{password: '  7  7 '}]}}", "E308", "password of 'admin'"),
        (f"{{proxy: {{oidc: {{{ADMIN}}}}}}}", "E307", "with a path under /v1/"),
        (f"{{admin: {{oidc: {{{PROXY}}}}}}}", "E307", "with a path under /admin/"),
        (
            "{proxy: {oidc: {%s}}}" % (OIDC % "http://localhost:8421/v1/../admin/"),
            "E307",
            "redirect_url",
        ),
        (
            "{proxy: {oidc: {" + PROXY.replace("https:", "ftp:") + "}}}",
            "E009",
            "issuer_url' must be an address",
        ),
    ],
)
def test_invalid_auth_reports_a_fix(auth, code, says):
    problem = refusal(auth)
    assert problem.code == f"coulisse.{code}"
    assert says in problem.message


def test_identity_binding_requires_a_scheme():
    with pytest.raises(ConfigInvalid, match="add 'basic' or 'oidc'"):
        load("{proxy: {identity: from_credential}}")


@pytest.mark.parametrize(
    "proxy",
    [
        "{tokens: {}}",
        "{basic: {password: long-enough-x}, identity: from_credential}",
        f"{{oidc: {{{PROXY}}}, identity: from_credential}}",
    ],
)
@pytest.mark.parametrize("more", ["default_user_id: main", "users: shared"])
def test_bound_identity_conflicts_with_a_shared_user(proxy, more):
    problem = refusal(f"{{proxy: {proxy}}}", more)
    assert problem.code == "coulisse.E305"
    assert problem.position.line == 5
    assert f"remove '{more.split(':')[0]}'" in problem.message


@pytest.mark.parametrize("more", ["default_user_id: main", "users: shared"])
def test_unbound_identity_allows_a_shared_user(more):
    assert load("{proxy: {basic: {password: long-enough-x}}}", more).proxy is not None


def test_secrets_are_not_in_error_messages():
    with pytest.raises(ConfigInvalid) as caught:
        load("{proxy: {basic: {password: pass-word, more: 1}}}")
    assert "pass-word" not in str(caught.value)


# What is allowed and not wise.


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        (
            "{proxy: {basic: {password: long-enough-x}, identity: from_credential}}",
            ["W301"],
        ),
        ("{proxy: {basic: {password: long-enough-x}}}", []),
        ("{proxy: {basic: {password: eleven-char}}}", ["W304"]),
        (
            "{admin: {basic: [{password: twelve-chars}, "
            "{username: b, password: eight-ch}]}}",
            ["W304"],
        ),
        ("{mcp_consumer_secret: backend-secret}", ["W305"]),
        ("{mcp_consumer_secret: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}", ["W305"]),
        ("{mcp_consumer_secret: 4f9c1be07a35d2e86190}", []),
        ("{proxy: {tokens: {}}}", []),
        (
            "{proxy: {basic: [{username: a, password: long-enough-x}, "
            "{username: b, password: long-enough-y}], "
            "identity: from_credential}}",
            [],
        ),
        (f"{{admin: {{oidc: {{{ADMIN}}}}}}}", []),
        (f"{{admin: {{oidc: {{{ADMIN.replace('https', 'http')}}}}}}}", ["W302"]),
        (f"{{proxy: {{oidc: {{{LOCAL}}}}}}}", []),
    ],
)
def test_check_warns_about_risky_settings(auth, expected, tmp_path, settings):
    settings.COULISSE_CONFIG = tmp_path / "coulisse.yaml"
    assert checks.check_auth() == []
    settings.COULISSE_CONFIG.write_text(YAML.replace("AUTH", auth))
    found = [message.id for message in checks.check_auth()]
    assert found == [f"coulisse.{code}" for code in expected]


@pytest.mark.parametrize(
    ("auth", "per", "expected"),
    [
        ("{}", "token", ["coulisse.W303"]),
        ("{proxy: {basic: {password: long-enough-x}}}", "token", ["coulisse.W303"]),
        ("{proxy: {tokens: {}}}", "token", []),
        ("{}", "principal", []),
    ],
)
def test_check_warns_about_a_limit_that_never_applies(
    auth, per, expected, tmp_path, settings
):
    settings.COULISSE_CONFIG = tmp_path / "coulisse.yaml"
    limits = f"limits: [{{per: agent, concurrent: 9}}, {{per: {per}, concurrent: 2}}]"
    settings.COULISSE_CONFIG.write_text(f"{YAML.replace('AUTH', auth)}\n{limits}\n")
    found = checks.check_auth()
    assert [message.id for message in found] == expected
    assert all("limits[1] is per token" in message.msg for message in found)


# Passwords and their hashes.


def header(username: str, password: str) -> str:
    pair = f"{username}:{password}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"


HASHED = "pbkdf2_sha256$1$salt$" + "A" * 43 + "="
HERE = "192.0.2.1"


def passwords(**logins: str) -> PasswordChecker:
    made = [BasicLogin(username=name, password=text) for name, text in logins.items()]
    throttle = LoginThrottle("test", report=lambda burst: None)
    return PasswordChecker(made, realm="test", throttle=throttle)


def addresses() -> Iterator[str]:
    """New addresses, without failures."""
    return (f"198.51.100.{number}" for number in range(255))


async def is_right(
    known: PasswordChecker, username: str, password: str, address: str = HERE
) -> bool:
    try:
        return await known.check(header(username, password), address) == username
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
    known = passwords(ada=HASHED)
    assert await is_right(known, "ada", "right")
    for number, address in zip(range(4), addresses(), strict=False):
        assert not await is_right(known, "ada", f"wrong-{number}", address)
    assert await is_right(known, "ada", "right")
    assert computed.count("right") == 1


async def test_unknown_username_takes_as_long_as_a_wrong_password(
    monkeypatch, computed
):
    known = passwords(ada=HASHED, bob="plain")
    for username, address in zip(("ada", "bob", "eve"), addresses(), strict=False):
        computed.clear()
        assert not await is_right(known, username, "wrong", address)
        assert computed == ["wrong"], username
    # The decoy's password does not work for other usernames.
    assert not await is_right(known, "eve", "right")
    assert not await is_right(known, "bob", "right")
    assert await is_right(known, "bob", "plain")


async def test_unknown_username_is_delayed_like_a_known_one(computed):
    result = {}
    for username in ("ada", "bob", "eve"):
        known = passwords(ada=HASHED, bob="plain")
        computed.clear()
        for number in range(5):
            assert not await is_right(known, username, f"wrong-{number}")
        with pytest.raises(LoginDelayed) as delayed:
            await known.check(header(username, "wrong"), HERE)
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
        is_right(scopes[number % 2], "ada", f"wrong-{number}", address)
        for number, address in zip(range(8), addresses(), strict=False)
    ]
    # Some are refused: the number of parallel checks per name is limited.
    found = await asyncio.gather(*guesses, return_exceptions=True)
    assert found.count(False) == 8
    assert not running


async def test_full_hash_queue_is_refused_at_once(monkeypatch):
    monkeypatch.setattr(basic_auth, "MAX_PENDING_HASHES", 0)
    known = passwords(ada=HASHED)
    for _ in range(6):  # What was not checked is no failure.
        with pytest.raises(PasswordChecksBusy) as refused:
            await known.check(header("ada", "x"), HERE)
    assert refused.value.retry_after_seconds == 2


async def test_concurrent_requests_with_one_credential_share_a_hash(computed):
    known = passwords(ada=HASHED)
    requested = [is_right(known, "ada", "right") for _ in range(30)]
    assert all(await asyncio.gather(*requested))
    assert computed == ["right"]


async def test_shared_failed_check_counts_for_each_address(computed):
    known = passwords(ada=HASHED)
    others = list(islice(addresses(), 2))
    for number in range(5):
        given = header(f"name-{number}", "wrong")
        requested = [known.check(given, address) for address in (HERE, *others)]
        for result in await asyncio.gather(*requested, return_exceptions=True):
            assert isinstance(result, CredentialRefused)
    assert len(computed) == 5
    for address in (HERE, *others):
        with pytest.raises(LoginDelayed):
            await known.check(header("bob", "wrong"), address)


async def test_shared_failed_check_counts_once_per_address(computed):
    known = passwords(ada=HASHED)
    requested = [is_right(known, "ada", "wrong") for _ in range(30)]
    assert not any(await asyncio.gather(*requested))
    assert await is_right(known, "ada", "right")


async def test_check_of_a_disconnected_client_counts_as_failure(monkeypatch):
    may_end = threading.Event()
    monkeypatch.setattr(
        basic_auth.hashers, "check_password", lambda *_: not may_end.wait(WAIT_SECONDS)
    )
    known = passwords(ada=HASHED)
    for number in range(5):
        may_end.clear()
        asking = asyncio.ensure_future(is_right(known, "ada", f"wrong-{number}"))
        await asyncio.sleep(0)
        asking.cancel()
        may_end.set()
        await asyncio.gather(*(check.result for check in known._running.values()))
    with pytest.raises(LoginDelayed):
        await known.check(header("ada", "wrong"), HERE)


async def test_parallel_guesses_of_one_address_are_limited(monkeypatch):
    """Many are sent at once, before the first is checked."""
    may_end = threading.Event()
    computed = []

    def check_password(given: str, _: str) -> bool:
        computed.append(given)
        may_end.wait(WAIT_SECONDS)
        return False

    monkeypatch.setattr(basic_auth.hashers, "check_password", check_password)
    known = passwords(ada=HASHED)
    guesses = [
        asyncio.ensure_future(is_right(known, "ada", f"wrong-{number}"))
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
    known = passwords(ada=HASHED)
    assert await is_right(known, "ada", "right", HERE)
    for number in range(5):
        assert not await is_right(known, "ada", f"wrong-{number}", "198.51.100.9")
    with pytest.raises(LoginDelayed):
        await known.check(header("ada", "right"), "198.51.100.9")
    assert await is_right(known, "ada", "right", HERE)


async def test_malformed_credential_is_not_a_guess():
    known = passwords(ada="plain-text")
    for _ in range(9):
        for value in (None, "Bearer x", "Basic", "Basic !", "Basic " + "x" * 5_000):
            with pytest.raises((CredentialRequired, CredentialRefused)):
                await known.check(value, HERE)
    assert await is_right(known, "ada", "plain-text")


async def test_hash_password_output_is_accepted(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("pass word\n"))
    call_command("hash-password")
    printed, warned = capsys.readouterr()
    assert "shorter than 12 characters" in warned
    printed = printed.strip()
    assert await is_right(passwords(ada=printed), "ada", "pass word")
    monkeypatch.setattr("sys.stdin", io.StringIO("a long pass word\n"))
    call_command("hash-password")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    with pytest.raises(CommandError, match="empty"):
        call_command("hash-password")
