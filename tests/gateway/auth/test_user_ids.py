"""Users named by ids: computed, known, and treated as names."""

import json
import uuid
from io import StringIO

import httpx2
import pytest
from django.core.management import call_command
from django.db.models import F

from access.models import ApiToken
from access.tokens import api_tokens, token_secrets
from access.users import identity
from access.users.user_namespace import PUBLIC_NAMESPACE
from config import live
from config.errors import ConfigInvalid
from config.loading import loader
from memory.models import Thread
from studio.operations import playground
from tasks.models import Task
from tests.access.actors import ADA
from tests.gateway import mcp_calls
from tests.gateway.calls import PATH, bearer, body, stored
from tests.gateway.memory_client import CONFIG_WITH_MEMORY, MemoryClient
from triggers.runs import trigger_runs

pytestmark = pytest.mark.database

NAMES_ONLY = "users: {accept_uuids: false}\n"
SAID = "My dog is called Argos"


@pytest.fixture
def http(running):
    with httpx2.Client(base_url=running, timeout=60, verify=False) as http:
        yield http


@pytest.fixture
def serve(configure):
    def serve(more: str = "") -> None:
        configure(CONFIG_WITH_MEMORY + more)

    return serve


@pytest.fixture
def bob(http, serve, fake, user) -> str:
    """A user with a memory and a conversation."""
    serve()
    MemoryClient(http, user).save(SAID)
    fake.reply("Noted.")
    assert http.post(PATH, json=body(user, SAID)).status_code == 200
    return user


def attack(http, fake, name: str) -> str:
    """Return all responses and prompts for a client that names this user."""
    memory_client = MemoryClient(http, name)
    fake.reply("Hello.")
    answers = [
        http.post(PATH, json=body(name, "Who is my dog?")),
        memory_client.send("GET", "/v1/memories"),
        memory_client.send(
            "POST", "/v1/memories/search", {"query": "dog", "in": "all"}
        ),
        memory_client.send("GET", "/v1/users/me/export"),
        memory_client.send("GET", "/v1/tasks"),
        mcp_calls.post(
            str(http.base_url).rstrip("/"),
            mcp_calls.call("search_memory", query="dog"),
            name,
        ),
    ]
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    return json.dumps(fake.bodies[-1]) + "".join(answer.text for answer in answers)


def test_computed_id_of_another_user_reads_nothing(http, fake, bob):
    computed = uuid.uuid5(PUBLIC_NAMESPACE, bob)
    for name in (str(computed), computed.hex.upper()):
        assert "Argos" not in attack(http, fake, name)
    assert "Argos" in attack(http, fake, bob)


def test_known_id_of_another_user_reads_nothing_with_uuids_as_names(
    http, fake, serve, bob
):
    bobs_id = identity.derive_user_id(bob)
    assert "Argos" in attack(http, fake, str(bobs_id))
    serve(NAMES_ONLY)
    for name in (str(bobs_id), bobs_id.hex, str(bobs_id).upper()):
        assert "Argos" not in attack(http, fake, name)
    assert "Argos" in attack(http, fake, bob)


def test_uuid_is_a_plain_name_when_configured(http, fake, serve, user):
    serve(NAMES_ONLY)
    name = uuid.uuid4()
    for text in (str(name), name.hex):
        fake.reply("hello")
        assert http.post(PATH, json=body(text)).status_code == 200
        assert Thread.objects.get(user_id=identity.user_id_of_name(text)).length == 2
    assert not Thread.objects.filter(user_id=name).exists()


@pytest.mark.parametrize("users", ["{accept_uuids: true}", "{mode: per-request}"])
def test_uuid_is_an_id_by_default(http, fake, serve, users):
    serve(f"users: {users}\n")
    name = uuid.uuid4()
    fake.reply("hello")
    assert http.post(PATH, json=body(str(name))).status_code == 200
    assert Thread.objects.get(user_id=name).length == 2


@pytest.mark.parametrize("users", ["shared", "{mode: shared, accept_uuids: false}"])
def test_mode_may_stand_alone_or_in_a_map(http, fake, serve, users):
    serve(f"users: {users}\n")
    before = len(stored("main"))
    fake.reply("hello")
    nameless = {
        key: value for key, value in body("x").items() if key != "safety_identifier"
    }
    assert http.post(PATH, json=nameless).status_code == 200
    assert len(stored("main")) == before + 2


def test_mode_defaults_to_per_request_in_a_map(http, serve):
    serve(NAMES_ONLY)
    assert http.get("/v1/memories").json()["error"]["code"] == "user_required"


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ("users: {mode: per-request}\ndefault_user_id: main", "coulisse.E301"),
        ("users: {mode: shared}\ndefault_user_id: kiosk", "coulisse.E302"),
        ("users: {mode: shared}\nauth: {proxy: {tokens: {}}}", "coulisse.E305"),
        ("users: {mode: everyone}", "coulisse.E009"),
        ("users: everyone", "coulisse.E009"),
        ("users: {accept_uuid: false}", "coulisse.E011"),
    ],
)
def test_contradicting_or_unknown_values_are_refused(tmp_path, lines, code):
    path = tmp_path / "coulisse.yaml"
    path.write_text(CONFIG_WITH_MEMORY.replace("{fake}", "http://x") + lines)
    with pytest.raises(ConfigInvalid) as caught:
        loader.load_file(path)
    assert [problem.code for problem in caught.value.problems] == [code]
    assert "users" in str(caught.value)


# Ids that are not names of clients: our own, and those of operators.


@pytest.fixture
def token_of(http, serve):
    """Return a function that creates a token for the client's requests."""
    serve(NAMES_ONLY + "auth: {proxy: {tokens: {}}}\n")

    def token_of(principal: str) -> str:
        _, secret = api_tokens.create_token("test", principal, by=ADA)
        http.headers.update(bearer(secret))
        return secret

    return token_of


def nameless() -> dict:
    return {"model": "assistant", "messages": body("x")["messages"]}


def test_token_for_an_id_keeps_its_user(http, fake, token_of):
    user_id = uuid.uuid4()
    token_of(str(user_id))
    for content in (nameless(), body(str(user_id)), body(user_id.hex)):
        fake.reply("hello")
        assert http.post(PATH, json=content).status_code == 200
    assert Thread.objects.get(user_id=user_id).length == 6


def test_changed_token_is_renewed(http, fake, token_of, user):
    secret = token_of(user)
    for _ in range(2):
        fake.reply("hello")
        assert http.post(PATH, json=nameless()).status_code == 200
        row = ApiToken.objects.filter(digest=token_secrets.digest(secret))
        assert row.update(version=F("version") + 1)
    assert len(stored(user)) == 4


def test_token_refuses_the_id_of_another_user(http, token_of, user):
    token_of(user)
    answer = http.post(PATH, json=body(str(identity.derive_user_id(f"{user}-b"))))
    assert answer.json()["error"]["code"] == "identity_mismatch"


def test_mcp_turn_belongs_to_the_named_user(http, fake, serve, user):
    serve(NAMES_ONLY)
    fake.reply("hello")
    url = str(http.base_url).rstrip("/")
    requested = mcp_calls.call("assistant", message="hi")
    assert "error" not in mcp_calls.post(url, requested, user).json()
    assert len(stored(user)) == 2


def test_limit_holds_for_an_id_and_for_a_uuid_as_a_name(http, fake, serve):
    name = str(uuid.uuid4())
    limit = f"limits: [{{per: principal, name: {name}, requests_per_minute: 1}}]\n"
    for more in (limit, limit + NAMES_ONLY):
        serve(more)
        fake.reply("hello")
        statuses = [http.post(PATH, json=body(name)).status_code for _ in range(2)]
        assert statuses == [200, 429]


def test_playground_and_commands_take_ids(serve, bob):
    serve(NAMES_ONLY)
    user_id = identity.derive_user_id(bob)
    for user in (bob, str(user_id), user_id.hex):
        message = playground.PlaygroundMessage(
            agent="assistant", user=user, message="hi"
        )
        assert playground.build_turn_request(message).user_id == user_id
        printed = StringIO()
        call_command("export-user", user, stdout=printed)
        assert "Argos" in printed.getvalue()


def test_studio_finds_users_by_id_and_by_a_uuid_as_a_name(http, fake, serve, bob):
    serve(NAMES_ONLY)
    name, user_id = str(uuid.uuid4()), identity.derive_user_id(bob)
    fake.reply("hello")
    assert http.post(PATH, json=body(name)).status_code == 200
    json_only = {"Accept": "application/json"}
    found = http.get("/admin/users", params={"q": name}, headers=json_only).json()
    assert [each["id"] for each in found["data"]] == [
        str(identity.user_id_of_name(name))
    ]
    found = http.get(f"/admin/users/{user_id}", headers=json_only)
    assert found.json()["id"] == str(user_id)


def test_task_runs_for_the_requesting_user(http, fake, serve, user):
    serve(NAMES_ONLY)
    response = http.post(
        "/v1/tasks", json={"agent": "assistant", "prompt": "Go.", "user": user}
    )
    assert response.status_code == 201
    task = Task.objects.get(pk=response.json()["id"])
    assert task.user_id == identity.derive_user_id(user)
    listed = http.get("/v1/tasks", params={"safety_identifier": user}).json()["data"]
    assert [each["id"] for each in listed] == [response.json()["id"]]


TRIGGERS = """
triggers:
  - {name: up, type: boot, agent: assistant, prompt: Go., user: NAME}
"""


def test_trigger_names_its_user_as_clients_do(serve):
    name = str(uuid.uuid4())
    for more, expected in (
        ("", uuid.UUID(name)),
        (NAMES_ONLY, identity.user_id_of_name(name)),
    ):
        serve(TRIGGERS.replace("NAME", name) + more)
        (trigger,) = live.current().values["triggers"]
        occasion = trigger_runs.build_event(live.current(), trigger)
        assert occasion.user_id == expected
