"""Options of a turn in `metadata`."""

import pytest

from tests.gateway.calls import ask, body, post, prompt, refused, stored, threads

pytestmark = pytest.mark.database


def test_other_metadata_keys_are_ignored(client, fake, user):
    ask(client, user, metadata={"ticket": "42", "Language": "nonsense", "": ""})
    assert len(fake.requests) == 1


@pytest.mark.parametrize("metadata", [{}, None])
def test_empty_metadata_is_accepted(server, user, metadata):
    assert post(server, body(user, metadata=metadata)).status_code == 200


@pytest.mark.parametrize(
    "key", ["tokens_per_hour", "tokens_per_day", "tokens_per_month"]
)
@pytest.mark.parametrize("value", ["", "abc", "-1", "1.5", " 7", "1e3", "٣", "²", "+1"])
def test_non_numeric_limit_is_refused(server, fake, user, key, value):
    error = refused(server, body(user, metadata={key: value}))
    assert error["param"] == f"metadata.{key}"
    wanted = f"metadata key '{key}' must be a non-negative integer, got '{value}'"
    assert error["message"] == wanted
    assert fake.requests == []


@pytest.mark.parametrize("name", ["", " ", "\n", "x" * 513, "a\0b"])
def test_invalid_thread_id_is_refused(server, fake, user, name):
    error = refused(server, body(user, metadata={"thread_id": name}))
    assert error["param"] == "metadata.thread_id"
    assert fake.requests == []


@pytest.mark.parametrize("name", ["x" * 512, "ünï 😀", "../..", "'; --", " padded "])
def test_thread_id_may_be_any_text(client, fake, user, name):
    ask(client, user, "one", metadata={"thread_id": name})
    ask(client, user, "two", metadata={"thread_id": name})
    assert len(prompt(fake.requests[-1])) == 4
    assert threads(user) == [name]
    assert len(stored(user, name)) == 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("history", "Server"),
        ("history", ""),
        ("memory", "on"),
        ("memory", "Incognito"),
        ("memory", ""),
    ],
)
def test_invalid_choice_is_refused(server, fake, user, key, value):
    error = refused(server, body(user, metadata={key: value}))
    assert error["param"] == f"metadata.{key}"
    assert fake.requests == []
