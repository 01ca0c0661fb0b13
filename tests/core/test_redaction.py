"""Secrets are taken out of texts, and nothing else is."""

import base64
import json
import threading
from urllib.parse import quote

import pytest

from core import redaction

OWN = "sk-coulisse-" + "aB3_-" * 9


@pytest.fixture(autouse=True)
def _knows_nothing(monkeypatch):
    monkeypatch.setattr(redaction, "_known", {})
    monkeypatch.setattr(redaction, "_in_order", ())


@pytest.mark.parametrize("hide", [redaction.own, redaction.every])
@pytest.mark.parametrize(
    "secret", ["hunter22hunter22", 'quo"ted\\pass', "pass/word+1@", "ключ-от-дверей"]
)
def test_what_is_known_goes_in_each_of_the_ways_it_is_written(hide, secret):
    redaction.know([secret])
    for written in (secret, json.dumps(secret)[1:-1], quote(secret, safe="")):
        assert hide(f"before {written} after") == "before [redacted] after"


def test_a_key_of_many_lines_goes_line_by_line():
    redaction.know(["-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----\n"])
    assert redaction.own("said: MIIEvQIBADANBg") == "said: [redacted]"


def test_the_longer_of_two_goes_whole():
    redaction.know(["password", "password-and-more"])
    assert redaction.own("password-and-more, password") == "[redacted], [redacted]"


def test_what_is_short_stays():
    redaction.know(["secret", "", " ", "1234567"])
    assert redaction.every("a secret of 1234567") == "a secret of 1234567"


def test_the_oldest_are_forgotten():
    redaction.know(f"secret-number-{n:04}" for n in range(redaction.MAX_KNOWN))
    redaction.know(["secret-number-0000", "another-secret"])
    said = redaction.own("secret-number-0000 secret-number-0001 another-secret")
    assert said == "[redacted] secret-number-0001 [redacted]"


def test_several_threads_may_learn_at_once():
    redaction.know(f"first-secret-{n}" for n in range(100))

    def learn(name: int) -> None:
        redaction.know(f"secret-{name}-{n}" for n in range(50))

    threads = [threading.Thread(target=learn, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert redaction.own("secret-3-49, first-secret-7") == "[redacted], [redacted]"


def test_tokens_of_ours_go_everywhere():
    assert redaction.own(f"key={OWN}.") == "key=[redacted]."


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


@pytest.mark.parametrize(("said", "left"), OTHERS)
def test_what_looks_like_a_secret_goes(said, left):
    hidden = redaction.every(said)
    assert hidden.startswith(left)
    assert "[redacted]" in hidden
    assert redaction.own(said) == said


@pytest.mark.parametrize(
    "said",
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
def test_all_else_stays(said):
    redaction.know(["hunter22hunter22"])
    assert redaction.every(said) == said
