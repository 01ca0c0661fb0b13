"""The secret keys: their sources, errors and use."""

import base64
import logging
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from config.errors import SecretsInvalid
from mcp_bridge import checks
from mcp_bridge.oauth.crypto import secret_keys
from mcp_bridge.oauth.crypto.encryption import DecryptionFailed, TokenCipher
from tests.mcp_bridge.oauth.sign_in_process import keys_in

KEY = base64.b64encode(bytes(range(32))).decode()
URL_SAFE = base64.urlsafe_b64encode(b"\xff\xfe" * 16).decode()


@pytest.fixture
def file(tmp_path, monkeypatch):
    for name in (secret_keys.VAULT_KEY, secret_keys.HMAC_KEY):
        monkeypatch.delenv(name, raising=False)
    with keys_in(tmp_path / ".coulisse") as path:
        yield path


def test_key_file_is_created_readable_by_its_owner_only(file):
    registered = secret_keys.load_keys()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    text = file.read_text()
    secret_keys._build_keys.cache_clear()
    assert secret_keys.load_keys().cipher.key_id == registered.cipher.key_id
    assert file.read_text() == text
    assert os.listdir(file.parent) == ["secrets.env"]


def test_parallel_first_loads_create_one_key_file(file):
    def load(_):
        secret_keys._build_keys.cache_clear()
        return secret_keys.load_keys().cipher.key_id

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(load, range(40)))) == 1


def test_environment_keys_create_no_file(file, monkeypatch):
    monkeypatch.setenv(secret_keys.VAULT_KEY, KEY)
    monkeypatch.setenv(secret_keys.HMAC_KEY, URL_SAFE)
    assert secret_keys.load_keys().cipher.key_id == TokenCipher(bytes(range(32))).key_id
    assert not file.exists()


def test_environment_and_file_keys_can_be_mixed(file, monkeypatch):
    key_id = secret_keys.load_keys().cipher.key_id
    monkeypatch.setenv(secret_keys.HMAC_KEY, KEY)
    assert secret_keys.load_keys().cipher.key_id == key_id


@pytest.mark.parametrize("name", [secret_keys.VAULT_KEY, secret_keys.HMAC_KEY])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not base64!", "is not base64"),
        ("c2hvcnQ=", "is 5 bytes long"),
        (KEY[:-1], "is not base64"),
        (base64.b64encode(bytes(33)).decode(), "is 33 bytes long"),
        ("é", "is not base64"),
    ],
)
def test_invalid_key_is_named_and_not_shown(file, monkeypatch, name, text, message):
    monkeypatch.setenv(name, text)
    with pytest.raises(SecretsInvalid, match=f"{name} {message}") as caught:
        secret_keys.load_keys()
    with pytest.raises(SecretsInvalid):
        secret_keys.check_keys()
    assert text not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"COULISSE_VAULT_KEY=x\n", b"\xff", b"A=B"])
def test_invalid_key_file_is_named(file, content):
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(SecretsInvalid, match=r"secrets\.env|COULISSE_VAULT_KEY"):
        secret_keys.load_keys()
    assert file.read_bytes() == content


def test_key_file_may_contain_quotes_blanks_and_comments(file):
    file.parent.mkdir()
    file.write_text(f'# c\n\nCOULISSE_VAULT_KEY = "{KEY}"\r\nCOULISSE_HMAC_KEY={KEY}\n')
    file.chmod(0o600)
    assert secret_keys.load_keys().cipher.key_id == TokenCipher(bytes(range(32))).key_id


def test_key_file_readable_by_others_is_warned_about(file, caplog):
    secret_keys.load_keys()
    assert not [each for each in caplog.records if each.levelno > logging.INFO]
    file.chmod(0o644)
    secret_keys._build_keys.cache_clear()
    secret_keys.load_keys()
    assert "is readable by other users; run chmod 600" in caplog.text


def test_unwritable_directory_error_names_the_remedy(file, tmp_path):
    (tmp_path / ".coulisse").write_text("a file")
    with pytest.raises(SecretsInvalid, match="set COULISSE_VAULT_KEY, COULISSE"):
        secret_keys.load_keys()


def test_repr_shows_no_key(file, monkeypatch):
    monkeypatch.setenv(secret_keys.VAULT_KEY, KEY)
    monkeypatch.setenv(secret_keys.HMAC_KEY, KEY)
    loaded = secret_keys.load_keys()
    shown = repr((loaded, vars(loaded.cipher), vars(loaded.link_cipher)))
    assert KEY not in shown
    assert repr(bytes(range(32))) not in shown


def test_other_process_reads_the_created_keys(file):
    program = (
        "import django; from django.conf import settings;"
        f"settings.configure(COULISSE_SECRETS_FILE={str(file)!r},"
        "COULISSE_CREATES_KEYS=True);"
        "from mcp_bridge.oauth.crypto import secret_keys;"
        "print(secret_keys.load_keys().cipher.key_id)"
    )
    ran = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    outputs = {each.communicate()[0].decode().strip() for each in ran}
    assert outputs == {secret_keys.load_keys().cipher.key_id}


# The vault.


def test_encrypted_text_is_readable_only_in_its_context():
    vault = TokenCipher(bytes(32))
    ciphertext = vault.encrypt("secret", "table", "server", "ann", "field")
    assert vault.decrypt(ciphertext, "table", "server", "ann", "field") == "secret"
    for place in (("table", "server", "bob", "field"), ("tables", "erver", "ann")):
        with pytest.raises(DecryptionFailed):
            vault.decrypt(ciphertext, *place)


def test_contexts_with_colons_are_distinct():
    vault = TokenCipher(bytes(32))
    ciphertext = vault.encrypt("secret", "a:b", "c")
    with pytest.raises(DecryptionFailed):
        vault.decrypt(ciphertext, "a", "b:c")


def test_equal_texts_have_different_ciphertexts():
    vault = TokenCipher(bytes(32))
    assert vault.encrypt("secret", "x") != vault.encrypt("secret", "x")


@pytest.mark.parametrize("ciphertext", [b"", b"short", bytes(12), bytes(40)])
def test_invalid_ciphertext_is_refused(ciphertext):
    with pytest.raises(DecryptionFailed):
        TokenCipher(bytes(32)).decrypt(ciphertext, "x")


# The check.

YAML = """
providers: {openai: {api_key: k}}
agents: [{name: a, provider: openai, model: m}]
mcp: {notes: {url: "https://notes.example/mcp", oauth: OAUTH}}
"""


@pytest.mark.parametrize(("oauth", "ids"), [("true", ["coulisse.E521"]), ("false", [])])
def test_invalid_key_fails_the_system_check(
    file, monkeypatch, settings, tmp_path, oauth, ids
):
    settings.COULISSE_CONFIG = tmp_path / "coulisse.yaml"
    settings.COULISSE_CONFIG.write_text(YAML.replace("OAUTH", oauth))
    assert checks.check_secrets() == []
    assert not file.exists()
    monkeypatch.setenv(secret_keys.HMAC_KEY, "x")
    assert [each.id for each in checks.check_secrets()] == ids
