"""Credentials of the Messages API, and its errors before the body is read."""

import pytest

from access.tokens import api_tokens
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway.anthropic.shapes import body, error, post
from tests.gateway.calls import bearer, threads

pytestmark = pytest.mark.database


@pytest.fixture
def secret(configure, running, user, database):
    configure(CONFIG + "auth: {proxy: {tokens: {}}}\n")
    return api_tokens.create_token("test", user, by=ADA)[1]


def test_key_header_is_a_credential(running, fake, user, secret):
    answer = post(running, body(user), headers={"x-api-key": secret})
    assert answer.status_code == 200, answer.text
    session = {"user_id": "user_abc_account__session_def"}
    answer = post(running, body(user, metadata=session), headers={"x-api-key": secret})
    assert answer.status_code == 200, answer.text
    assert threads(user) == ["", "def"]


def test_authorization_takes_precedence(running, user, secret):
    headers = {"x-api-key": secret, **bearer("wrong")}
    problem = error(post(running, body(user), headers=headers), 401)
    assert problem["type"] == "authentication_error"


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_missing_credential_is_refused_in_anthropics_shape(running, user, secret, path):
    problem = error(post(running, body(user), path), 401)
    assert problem["type"] == "authentication_error"


def test_large_body_is_refused_in_anthropics_shape(configure, running, user, database):
    configure(CONFIG + "server: {max_body_bytes: 2000}\n")
    request = body(user, {"role": "user", "content": "x" * 3000})
    assert error(post(running, request), 413)["type"] == "request_too_large"
