"""The `auth` section of the YAML."""

import pickle
import re
from pathlib import Path

import pytest
from django.contrib.auth.hashers import make_password

from access import checks
from access.authentication.config import AUTH
from config.errors import ConfigInvalid
from config.loading import loader, secret_values
from config.validation import schema_paths

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
        ("proxy", "basic", "password"),
        ("admin", "basic", 0, "password"),
    ):
        assert schema_paths.is_secret(AUTH.schema, place), place
    assert AUTH.schema["$defs"]["BasicLogin"]["properties"]["password"]["format"] == (
        "password"
    )


@pytest.mark.parametrize("value", ["[long-enough-x]", "{a: b}"])
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


# Warnings.


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
