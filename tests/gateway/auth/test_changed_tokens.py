"""API tokens that change while processes cache them, over real HTTP."""

import httpx2
import pytest
from django.db.models import F

from access.models import ApiToken
from access.tokens import api_tokens, token_secrets
from access.tokens.token_cache import TOKEN_CACHE
from access.users import identity
from memory.models import Thread
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway.auth.authentication.credentials import refusal
from tests.gateway.calls import PATH, bearer, stored

pytestmark = pytest.mark.database

TOKENS = CONFIG + "auth: {proxy: {tokens: {}}}\n"
ASKED = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def http(running):
    with httpx2.Client(base_url=running, timeout=60, verify=False) as http:
        yield http


@pytest.fixture
def create_token(database, user):
    """Return a function that creates a token for the test's user."""

    def create_token(**terms) -> str:
        return api_tokens.create_token("test", user, by=ADA, **terms)[1]

    return create_token


@pytest.fixture
def change(configure, fake, http):
    """Return a function that changes a token that this process has cached."""
    configure(TOKENS)

    def change(secret: str, headers=None, **changes) -> None:
        fake.reply("hello")
        answer = http.post(PATH, json=ASKED, headers=headers or bearer(secret))
        assert answer.status_code == 200
        row = ApiToken.objects.filter(digest=token_secrets.digest(secret))
        assert row.update(version=F("version") + 1, **changes)

    return change


def test_changed_token_is_looked_up_once(change, fake, http, create_token):
    secret = create_token()
    change(secret, label="renamed")
    for _ in range(2):
        fake.reply("hello")
        assert http.post(PATH, json=ASKED, headers=bearer(secret)).status_code == 200
        cached = TOKEN_CACHE.get(token_secrets.digest(secret))
        assert cached is not None
        assert (cached.label, cached.version) == ("renamed", 2)


def test_reassigned_prefix_reads_nothing_of_former_users(
    change, fake, http, create_token, user
):
    secret = create_token(client_users="separate")
    ada = {**bearer(secret), "X-Coulisse-User": "ada"}
    change(secret, headers=ada, principal=f"{user}-2")
    fake.reset()
    answer = http.post(PATH, json=ASKED, headers=ada)
    assert refusal(answer) == (403, "identity_mismatch")
    assert fake.requests == []
    fake.reply("hello")
    assert http.post(PATH, json=ASKED, headers=ada).status_code == 200
    assert len(stored(f"{user}/ada")) == len(stored(f"{user}-2/ada")) == 2


def test_removed_token_agent_is_refused_at_once(change, http, create_token):
    secret = create_token(agents=["assistant"])
    change(secret, agents=["tuned"])
    answer = http.post(PATH, json=ASKED, headers=bearer(secret))
    assert refusal(answer) == (404, "model_not_found")


def test_reassigned_token_reads_nothing_of_its_former_user(
    change, fake, http, create_token, user
):
    secret = create_token()
    other = f"{user}-2"
    change(secret, principal=other)
    answer = http.post(PATH, json=ASKED, headers=bearer(secret))
    assert refusal(answer) == (403, "identity_mismatch")
    fake.reply("hello")
    assert http.post(PATH, json=ASKED, headers=bearer(secret)).status_code == 200
    assert Thread.objects.filter(user_id=identity.derive_user_id(other)).exists()
