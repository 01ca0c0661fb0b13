"""Names of users, from tokens and the configuration."""

import uuid

import pytest

from access import user_lookup
from access.tokens import api_tokens
from access.users import identity
from config.loading import loader
from tests.access.actors import ADA

YAML = """
providers: {openai: {api_key: sk-x}}
agents: [{name: assistant, provider: openai, model: gpt-test}]
default_user_id: main
limits: [{per: principal, name: Bob, tokens_per_day: 5}]
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "coulisse.yaml"
    path.write_text(YAML)
    return loader.load_file(path)


@pytest.mark.database
@pytest.mark.usefixtures("database")
def test_names_from_tokens_and_file_are_known(config):
    principal, unnamed = f"alice-{uuid.uuid4()}", str(uuid.uuid4())
    for name in (principal, principal, unnamed):
        api_tokens.create_token("laptop", name, by=ADA)
    names = user_lookup.load_names(config)
    assert names[identity.derive_user_id(principal)] == principal
    assert names[identity.derive_user_id("main")] == "main"
    assert names[identity.derive_user_id("Bob")] == "Bob"
    assert identity.derive_user_id(unnamed) not in names


def test_user_search_matches_exact_and_partial_names():
    names = {identity.derive_user_id(name): name for name in ("Alice", "malice", "bob")}
    assert user_lookup.match_users(" ALICE ", names) == {
        *(identity.derive_user_id(name) for name in ("ALICE", "Alice", "malice")),
    }
    assert user_lookup.match_users("", names) == set(names)
    assert user_lookup.match_users("x" * 513, names) == set()


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("01a1", "01a10000-0000", "01a1ffff-ffff"),
        ("01A16949-4c", "01a16949-4c00", "01a16949-4cff"),
        ("0" * 32, "00000000-0000", "00000000-0000"),
    ],
)
def test_id_prefix_becomes_a_range(text, first, last):
    found = user_lookup.id_range(text)
    assert [str(end)[:13] for end in found] == [first, last]


@pytest.mark.parametrize("text", ["01a", "alice", "0" * 33, "", "01a1 x", "٠١٢٣"])
def test_other_texts_are_no_id_prefix(text):
    assert user_lookup.id_range(text) is None
