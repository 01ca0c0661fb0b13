"""Secrets are removed from texts, and nothing else."""

import base64
import json
import threading
from functools import partial
from urllib.parse import quote

import pytest

from core.text import redaction
from tests import growth

KEY = "q7Vd2mXw9Lr4TzK8bNf3HcYs"
LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj"
OWN = "sk-coulisse-" + "aB3_-" * 9


@pytest.fixture(autouse=True)
def _knows_nothing(monkeypatch):
    monkeypatch.setattr(redaction, "_known_secrets", {})
    monkeypatch.setattr(redaction, "_longest_first", ())


@pytest.mark.parametrize("hide", [redaction.redact_own, redaction.redact_all])
@pytest.mark.parametrize(
    "secret", [KEY, f'quo"ted\\{KEY}', f"{KEY}/+1@", f"ключ-{KEY}"]
)
def test_known_secret_is_redacted_in_every_encoding(hide, secret):
    redaction.register_secrets([secret])
    for written in (secret, json.dumps(secret)[1:-1], quote(secret, safe="")):
        assert hide(f"before {written} after") == "before [redacted] after"


def test_multi_line_key_is_redacted_line_by_line():
    redaction.register_secrets([f"-----BEGIN KEY-----\n{LINE}\n-----END KEY-----\n"])
    assert redaction.redact_own(f"said: {LINE}") == "said: [redacted]"
    assert redaction.redact_own("-----BEGIN KEY-----") == "-----BEGIN KEY-----"


def test_longer_overlapping_secret_is_redacted_whole():
    redaction.register_secrets([KEY, f"{KEY}-9fT"])
    assert redaction.redact_own(f"{KEY}-9fT, {KEY}") == "[redacted], [redacted]"


GUESSABLE = [
    "",
    " ",
    "secret",
    "12345678",
    "hunter22hunter22",
    "correct horse battery staple",
    "MeinHundHeisstRexUndIstLieb",
    'quo"ted pass/wörd',
    "first line\nsecond line",
    "-----BEGIN KEY-----\nnot-a-key-at-all\n-----END KEY-----",
]


@pytest.mark.parametrize("secret", GUESSABLE)
def test_guessable_secret_is_not_registered(secret):
    redaction.register_secrets([secret])
    assert redaction._known_secrets == {}
    for text in (secret, json.dumps(secret), quote(secret, safe="")):
        assert redaction.redact_all(text) == text


def test_oldest_secrets_are_dropped():
    redaction.register_secrets(f"{KEY}{n:04}" for n in range(redaction.MAX_KNOWN))
    redaction.register_secrets([f"{KEY}0000", f"{KEY}-new"])
    message = redaction.redact_own(f"{KEY}0000 {KEY}0001 {KEY}-new")
    assert message == f"[redacted] {KEY}0001 [redacted]"


def test_threads_can_register_secrets_in_parallel():
    redaction.register_secrets(f"{KEY}-first-{n}" for n in range(100))

    def learn(name: int) -> None:
        redaction.register_secrets(f"{KEY}-{name}-{n}" for n in range(50))

    threads = [threading.Thread(target=learn, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (
        redaction.redact_own(f"{KEY}-3-49, {KEY}-first-7") == "[redacted], [redacted]"
    )


def test_own_tokens_are_redacted_everywhere():
    assert redaction.redact_own(f"key={OWN}.") == "key=[redacted]."


OTHERS = [
    ("key sk-ant-api03-abcdefghijklmnop!", "key [redacted]!"),
    ("Authorization: Bearer abcdefghij.klmnop~q/r+s=", "Authorization: Bearer"),
    ("'AUTHORIZATION': 'BEARER abcdefghijklmnopqr'", "'AUTHORIZATION': 'BEARER"),
    (f"Basic {base64.b64encode(b'ada:pw').decode()}", "Basic"),
    (f"basic {base64.b64encode(b'a:' + b'?' * 9).decode()}", "basic"),
    ("to postgres://ada:p%40ss@db:5432/x", "to postgres://ada:[redacted]@db:5432/x"),
    ("redis://:hidden@localhost/0", "redis://:[redacted]@localhost/0"),
    ("uvx it --api-key=abcdefgh1 -v", "uvx it --api-key=[redacted] -v"),
    ("http://x/mcp?exaApiKey=abc-def-1&b=2", "http://x/mcp?exaApiKey=[redacted]&b=2"),
    ("token eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", "token [redacted]"),
]


@pytest.mark.parametrize(("message", "redacted"), OTHERS)
def test_secret_like_text_is_redacted(message, redacted):
    hidden = redaction.redact_all(message)
    assert hidden.startswith(redacted)
    assert "[redacted]" in hidden
    assert redaction.redact_own(message) == message


@pytest.mark.parametrize(
    "message",
    [
        "send it as `Authorization: Bearer KEY`",
        "Bearer authentication",
        "basic authentication is required, basic knowledge of it, too",
        "http://localhost:8421/v1 of ada@example.com",
        "sk-short, task-forces-and-whatever-else, risk-averse-investors-here",
        "--max=12345678 ?page=12345678 --token=${MY_TOKEN} a?b=monkeys-of-all-kinds",
        "turn 5f0cb7a4-27b6-4e0a-9a55-0ab6c9d0b3e1 of assistant: ok in 1.87 s",
        "",
    ],
)
def test_other_text_is_kept(message):
    redaction.register_secrets([KEY])
    assert redaction.redact_all(message) == message


FOREIGN = [
    "q7Vd2mXw9Lr4TzK8bNf3HcYs",
    "gsk_q7Vd2mXw9Lr4TzK8bNf3HcYs",
    "9f86d081884c7d659a2feaa0c55ad015",
    "5f0cb7a4-27b6-4e0a-9a55-0ab6c9d0b3e1",
    "sk-abcdefghijklmnop",
]


@pytest.mark.parametrize("key", FOREIGN)
def test_quote_masks_key_like_text(key):
    assert redaction._known_secrets == {}
    assert (
        redaction.redact_quote(f"Incorrect key: '{key}'.")
        == "Incorrect key: '[redacted]'."
    )


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 100000; claude-sonnet-4-20250514 has 64000",
        "model meta-llama/Llama-3.3-70B-Instruct-Turbo does not exist",
        "Unsupported value: 'messages[0].content[1].image_url.detail' (see the docs)",
    ],
)
def test_quote_keeps_useful_text(message):
    assert redaction.redact_quote(message) == message


def test_quote_does_not_depend_on_known_secrets():
    message = f"{KEY} hunter22hunter22 of-a-child-3"
    before = redaction.redact_quote(message)
    redaction.register_secrets([KEY, "hunter22hunter22", "of-a-child-3"])
    assert redaction.redact_quote(message) == before


def test_quoted_line_masks_a_key_that_its_end_cuts():
    message = f"the key{' ' * 9}{KEY} is wrong"
    assert redaction.redact_quoted_line(message, 20) == "the key [redacted] …"
    assert redaction.redact_quoted_line("a\n b\x00", 20) == "a b\\x00"


def test_long_text_is_truncated_with_a_note():
    message = redaction.redact_all("word " * 40_000)
    assert len(message) < redaction.MAX_READ + 100
    assert message.endswith("… (cut off: the text has 200000 characters)")


@pytest.mark.parametrize("back", range(0, 30, 3))
def test_truncation_leaves_no_partial_secret(back):
    redaction.register_secrets([KEY])
    for before in (" ", "="):
        text = f"{'a' * (redaction.MAX_READ - back - 1)}{before}{KEY} and more"
        assert KEY[:3] not in redaction.redact_all(text)


WORST = {
    "option name": lambda n: "= ?" + "key" * (n // 3),
    "many options": lambda n: "= " + "--key" * (n // 5),
    "dots and dashes": lambda n: "= " + ".--" * (n // 3) + "key",
    "queries": lambda n: "?token" * (n // 6) + "=",
    "short values": lambda n: "&key=" * (n // 5),
    "jwt without a dot": lambda n: "eyJaaaaaaaa-" * (n // 12),
    "jwt with dots": lambda n: "eyJaaaaaaaa." * (n // 12),
    "sk-": lambda n: "sk-aaa " * (n // 7),
    "sk-coulisse-": lambda n: "sk-coulisse-a " * (n // 14),
    "bearer": lambda n: "bearer " * (n // 7),
    "bearer and blanks": lambda n: "bearer" + " " * n,
    "basic": lambda n: "basic " * (n // 6),
    "basic and blanks": lambda n: "basic" + " " * n,
    "basic and letters": lambda n: "basic " + "a" * n,
    "addresses": lambda n: "://a:" * (n // 5) + "@",
    "password without an at": lambda n: "@ ://:" + "x" * n,
    "one letter": lambda n: "a" * n,
    "keys": lambda n: (KEY + " ") * (n // 25),
}


@pytest.mark.parametrize("worst", WORST)
@pytest.mark.parametrize("work", [redaction.redact_patterns, redaction.redact_own])
def test_redaction_takes_linear_time(work, worst):
    redaction.register_secrets([KEY])
    short, long = (partial(work, WORST[worst](2**power)) for power in (14, 17))
    assert growth.grows_slowly(short, long)


@pytest.mark.parametrize("worst", WORST)
@pytest.mark.parametrize(
    "work", [redaction.redact_all, lambda text: redaction.redact_quote(text[:600])]
)
def test_text_beyond_the_limit_costs_nothing(work, worst):
    # 64 times the text must not take more than 64 times as long.
    short, long = (partial(work, WORST[worst](2**power)) for power in (16, 22))
    assert growth.grows_slowly(short, long)
