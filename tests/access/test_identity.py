"""The user of a request, by its caller and names."""

import uuid

import pytest

from access.users import identity, user_namespace
from config.errors import ConfigInvalid
from config.loading import loader
from memory.models import Thread
from tests.gateway.calls import ask, post, refused, stored, user_message

pytestmark = pytest.mark.database

AGENTS = """
providers: {openai: {base_url: "{fake}/v1"}}
agents: [{name: assistant, provider: openai, model: gpt}]
"""


def asking(**fields: object) -> dict:
    return {"model": "assistant", "messages": [user_message("hi")], **fields}


def test_user_field_is_accepted(server, user):
    assert post(server, asking(user=user)).status_code == 200
    assert stored(user)


def test_null_safety_identifier_falls_back_to_user(server, user):
    request = asking(safety_identifier=None, user=user)
    assert post(server, request).status_code == 200
    assert stored(user)


@pytest.mark.parametrize("stream", [True, False])
def test_request_without_user_is_refused_with_a_hint(server, fake, stream):
    refusal = refused(server, asking(stream=stream))
    assert refusal["code"] == "user_required"
    assert refusal["param"] == "safety_identifier"
    assert "safety_identifier" in refusal["message"]
    for remedy in ("default_user_id", "users: shared", "yaml"):
        assert remedy not in refusal["message"]
    assert fake.requests == []


def test_users_default_to_per_request(server, configure):
    configure(f"users: per-request\n{AGENTS}")
    assert refused(server, asking())["code"] == "user_required"


@pytest.mark.parametrize("field", ["safety_identifier", "user"])
@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_blank_name_is_refused(server, fake, field, blank):
    assert refused(server, asking(**{field: blank}))["param"] == "safety_identifier"
    assert fake.requests == []


def test_blank_name_is_refused_despite_a_default_user(server, configure):
    configure(f"users: shared\n{AGENTS}")
    refusal = refused(server, asking(safety_identifier=""))
    assert refusal["param"] == "safety_identifier"


def test_overlong_name_is_refused(server):
    refusal = refused(server, asking(safety_identifier="x" * 513))
    assert "512" in refusal["message"]


def test_default_user_applies_to_unnamed_requests(server, configure):
    name = f"default-{uuid.uuid4()}"
    configure(f"default_user_id: {name}\n{AGENTS}")
    assert post(server, asking()).status_code == 200
    assert len(stored(name)) == 2


def test_default_user_does_not_replace_a_named_user(server, configure, user):
    name = f"default-{uuid.uuid4()}"
    configure(f"default_user_id: {name}\n{AGENTS}")
    assert post(server, asking(user=user)).status_code == 200
    assert stored(user)
    assert not stored(name)


def test_shared_mode_uses_the_user_main(server, configure):
    configure(f"users: shared\n{AGENTS}")
    before = len(stored("main"))
    assert post(server, asking()).status_code == 200
    assert post(server, asking(user="main")).status_code == 200
    assert len(stored("main")) == before + 4


def test_uuid_is_used_unchanged(client):
    name = uuid.uuid4()
    ask(client, str(name))
    ask(client, name.hex.upper())
    assert Thread.objects.get(user_id=name).length == 4


def test_name_maps_to_a_stable_uuid(client, user):
    ask(client, user)
    ask(client, f" {user} ")
    thread = Thread.objects.get(user_id=uuid.uuid5(user_namespace.current(), user))
    assert thread.length == 4


@pytest.mark.parametrize("text", ["Zoë 中文 😀", "'; DROP TABLE--", "a/b?c#d", "\0"])
def test_name_may_be_any_text(client, user, text):
    ask(client, f"{user}{text}")
    assert len(stored(f"{user}{text}")) == 2
    assert not stored(user)


@pytest.mark.parametrize(
    ("users", "default", "code"),
    [
        ("per-request", "main", "coulisse.E301"),
        ("shared", "alice", "coulisse.E302"),
    ],
)
def test_contradicting_keys_are_refused(tmp_path, users, default, code):
    path = tmp_path / "coulisse.yaml"
    text = AGENTS.replace("{fake}", "http://localhost")
    path.write_text(f"users: {users}\ndefault_user_id: {default}\n{text}")
    with pytest.raises(ConfigInvalid) as caught:
        loader.load_file(path)
    assert [problem.code for problem in caught.value.problems] == [code]


@pytest.mark.parametrize("line", ["users: everyone", "default_user_id: ''"])
def test_invalid_values_are_refused(tmp_path, line):
    path = tmp_path / "coulisse.yaml"
    path.write_text(line + AGENTS.replace("{fake}", "http://localhost"))
    with pytest.raises(ConfigInvalid, match=line.split(":")[0]):
        loader.load_file(path)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1-" + "2" * 31, "12-" + "2" * 30),
        ("1_" + "3" * 30, "13_" + "3" * 29),
        ("1-" + "2" * 31, "1" + "2" * 31),
        ("+" + "4" * 31, "0" + "4" * 31),
        ("٤" * 32, "4" * 32),
    ],
)
def test_text_resembling_a_uuid_is_a_plain_name(one, other):
    assert identity.derive_user_id(one) != identity.derive_user_id(other)
