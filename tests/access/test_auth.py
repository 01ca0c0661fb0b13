"""The `auth` block of the YAML."""

import base64
import io
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.contrib.auth.hashers import make_password
from django.core.management import CommandError, call_command

from access import basic, checks
from access.auth_config import AUTH, Login
from access.basic import Passwords
from access.errors import CredentialRefused, TooManyGuesses
from config import loader
from config.errors import ConfigInvalid

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
    return loader.parse(text.encode(), Path("coulisse.yaml")).get(AUTH)


def refusal(auth: str, more: str = ""):
    with pytest.raises(ConfigInvalid) as caught:
        load(auth, more)
    (problem,) = caught.value.problems
    return problem


def test_the_secret_is_read_and_hidden():
    auth = load("{mcp_consumer_secret: ' the-secret '}")
    assert auth.mcp_consumer_secret.get_secret_value() == "the-secret"
    assert "the-secret" not in repr(auth)


@pytest.mark.parametrize("auth", ["", "{}", "{mcp_consumer_secret: ''}"])
def test_nothing_asked_for_is_nothing_set(auth):
    found = load(auth)
    assert found.mcp_consumer_secret is found.admin is found.proxy is None


@pytest.mark.parametrize("secret", ["two words", "sécret", "a\\nb"])
def test_a_secret_no_header_can_carry_is_refused_and_not_shown(secret):
    with pytest.raises(ConfigInvalid, match="must be visible ASCII") as caught:
        load(f'{{mcp_consumer_secret: "{secret}"}}')
    assert secret not in str(caught.value)


# Schemes.


def test_one_login_is_admin_unless_it_says_otherwise():
    (login,) = load("{proxy: {basic: {password: pass-word}}}").proxy.logins
    assert login.username == "admin"
    assert "pass-word" not in repr(login)


def test_there_may_be_several_logins():
    logins = load(
        "{admin: {basic: [{username: ada, password: x}, {username: bob, password: y}]}}"
    ).admin.logins
    assert [login.username for login in logins] == ["ada", "bob"]


def test_a_password_may_be_a_hash():
    hashed = make_password("pass-word")
    (login,) = load(f"{{proxy: {{basic: {{password: '{hashed}'}}}}}}").proxy.logins
    assert login.password.get_secret_value() == hashed


def test_the_switch_of_tokens_is_an_empty_map():
    proxy = load("{proxy: {tokens: {}}}").proxy
    assert proxy.tokens is not None
    assert proxy.binds_users


def test_the_reference_s_oidc_is_read():
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
            "{proxy: {tokens: {}, basic: {password: x}}}",
            "E303",
            "auth.proxy has 'basic' and 'tokens', but a scope has exactly one scheme",
        ),
        (
            f"{{admin: {{oidc: {{{ADMIN}}}, basic: {{password: x}}}}}}",
            "E303",
            "has 'basic' and 'oidc'",
        ),
        ("{admin: {tokens: {}}}", "E009", "move 'tokens' to auth.proxy"),
        (
            "{admin: {basic: {password: x}, identity: from_credential}}",
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
        ("{proxy: {basic: {username: ' ', password: x}}}", "E009", "username'"),
        ("{proxy: {basic: {username: 'a:b', password: x}}}", "E009", "colon"),
        ("{proxy: {basic: []}}", "E303", "is an empty list"),
        (
            "{proxy: {basic: "
            "[{username: a, password: x}, {username: a, password: y}]}}",
            "E306",
            "has the username 'a' twice",
        ),
        ("{proxy: {basic: {password: 'pbkdf2_sha256$1'}}}", "E009", "hash-password"),
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
def test_what_cannot_be_is_refused_with_its_remedy(auth, code, says):
    problem = refusal(auth)
    assert problem.code == f"coulisse.{code}"
    assert says in problem.message


def test_binding_needs_a_scheme():
    with pytest.raises(ConfigInvalid, match="add 'basic' or 'oidc'"):
        load("{proxy: {identity: from_credential}}")


@pytest.mark.parametrize(
    "proxy",
    [
        "{tokens: {}}",
        "{basic: {password: x}, identity: from_credential}",
        f"{{oidc: {{{PROXY}}}, identity: from_credential}}",
    ],
)
@pytest.mark.parametrize("more", ["default_user_id: main", "users: shared"])
def test_bound_users_and_one_for_all_contradict_each_other(proxy, more):
    problem = refusal(f"{{proxy: {proxy}}}", more)
    assert problem.code == "coulisse.E305"
    assert problem.position.line == 5
    assert f"remove '{more.split(':')[0]}'" in problem.message


@pytest.mark.parametrize("more", ["default_user_id: main", "users: shared"])
def test_unbound_users_may_share(more):
    assert load("{proxy: {basic: {password: x}}}", more).proxy is not None


def test_no_secret_is_in_a_message():
    with pytest.raises(ConfigInvalid) as caught:
        load("{proxy: {basic: {password: pass-word, more: 1}}}")
    assert "pass-word" not in str(caught.value)


# What is allowed and not wise.


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        ("{proxy: {basic: {password: x}, identity: from_credential}}", ["W301"]),
        ("{proxy: {basic: {password: x}}}", []),
        ("{proxy: {tokens: {}}}", []),
        (
            "{proxy: {basic: [{username: a, password: x}, {username: b, password: y}],"
            " identity: from_credential}}",
            [],
        ),
        (f"{{admin: {{oidc: {{{ADMIN}}}}}}}", []),
        (f"{{admin: {{oidc: {{{ADMIN.replace('https', 'http')}}}}}}}", ["W302"]),
        (f"{{proxy: {{oidc: {{{LOCAL}}}}}}}", []),
    ],
)
def test_check_warns_of_what_is_not_wise(auth, expected, tmp_path, settings):
    settings.COULISSE_CONFIG = tmp_path / "coulisse.yaml"
    assert checks.check_auth() == []
    settings.COULISSE_CONFIG.write_text(YAML.replace("AUTH", auth))
    found = [message.id for message in checks.check_auth()]
    assert found == [f"coulisse.{code}" for code in expected]


@pytest.mark.parametrize(
    ("auth", "per", "expected"),
    [
        ("{}", "token", ["coulisse.W303"]),
        ("{proxy: {basic: {password: x}}}", "token", ["coulisse.W303"]),
        ("{proxy: {tokens: {}}}", "token", []),
        ("{}", "principal", []),
    ],
)
def test_check_warns_of_a_limit_that_never_holds(
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


def passwords(**logins: str) -> Passwords:
    made = [Login(username=name, password=text) for name, text in logins.items()]
    return Passwords(made, realm="test")


def is_right(known: Passwords, username: str, password: str) -> bool:
    try:
        return known.check_here(header(username, password)) == username
    except CredentialRefused:
        return False


def test_guesses_do_not_push_out_what_is_right(monkeypatch):
    computed = []
    monkeypatch.setattr(basic, "MAX_REMEMBERED", 3)
    monkeypatch.setattr(
        basic.hashers,
        "check_password",
        lambda given, _: computed.append(given) or given == "right",
    )
    known = passwords(ada="pbkdf2_sha256$1$salt$" + "A" * 43 + "=")
    assert is_right(known, "ada", "right")
    for number in range(10):
        assert not is_right(known, "ada", f"wrong-{number}")
    assert is_right(known, "ada", "right")
    assert computed.count("right") == 1


def test_nobody_s_name_costs_what_a_wrong_password_does(monkeypatch):
    computed = []
    monkeypatch.setattr(
        basic.hashers, "check_password", lambda given, _: bool(computed.append(given))
    )
    known = passwords(ada="pbkdf2_sha256$1$salt$" + "A" * 43 + "=", bob="plain")
    for username in ("ada", "bob", "eve"):
        computed.clear()
        assert not is_right(known, username, "wrong")
        assert computed == ["wrong"], username
    # The decoy's own password is no password of somebody else.
    monkeypatch.setattr(basic.hashers, "check_password", lambda *_: True)
    assert not is_right(known, "eve", "the decoy's")
    assert not is_right(known, "bob", "the decoy's")
    assert is_right(known, "bob", "plain")


def test_threads_check_one_password_at_a_time(monkeypatch):
    running = []

    def check_password(given: str, _: str) -> bool:
        running.append(given)
        assert len(running) == 1
        time.sleep(0.002)  # So that another thread would come in.
        running.remove(given)
        return False

    monkeypatch.setattr(basic, "MAX_REMEMBERED", 3)
    monkeypatch.setattr(basic.hashers, "check_password", check_password)
    known = passwords(ada="pbkdf2_sha256$1$salt$" + "A" * 43 + "=")
    with ThreadPoolExecutor(4) as threads:
        guesses = [f"wrong-{number}" for number in range(8)]
        found = threads.map(lambda guess: is_right(known, "ada", guess), guesses)
        assert not any(found)


async def test_too_many_guesses_are_not_waited_for(monkeypatch):
    monkeypatch.setattr(basic, "MAX_WAITING", 0)
    known = passwords(ada="pbkdf2_sha256$1$salt$" + "A" * 43 + "=")
    with pytest.raises(TooManyGuesses):
        await known.check(header("ada", "x"))


def test_what_hash_password_prints_is_taken(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("pass word\n"))
    call_command("hash-password")
    printed = capsys.readouterr().out.strip()
    assert is_right(passwords(ada=printed), "ada", "pass word")
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    with pytest.raises(CommandError, match="empty"):
        call_command("hash-password")
