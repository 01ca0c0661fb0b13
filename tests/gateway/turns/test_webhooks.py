"""`/hooks/…`: a POST starts an agent."""

import hashlib
import hmac
import json
import threading
import time
import uuid
from typing import Any

import httpx2
import pytest

from access.users import identity
from tasks.models import Task
from tasks.queue import publisher
from tests.gateway.calls import bearer, error
from tests.triggers.trigger_yaml import Configure, hook, runs, state, unique, yaml

pytestmark = pytest.mark.database

SECRET = "a-secret-of-a-webhook"
LOCKED = f"secret: {SECRET}"


@pytest.fixture(autouse=True)
def woken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Replace the broker by a list of notifications."""
    calls: list[bool] = []
    monkeypatch.setattr(publisher, "notify", lambda *_: calls.append(True))
    return calls


@pytest.fixture
def name() -> str:
    return unique("hook")


@pytest.fixture
def path(name: str) -> str:
    return f"/hooks/{name}"


def post(
    http: httpx2.Client, path: str, body: Any, headers: dict[str, str] | None = None
) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.post(path, content=content, headers=headers or {})


def task_of(answer: httpx2.Response) -> Task:
    assert answer.status_code == 200, answer.text
    return Task.objects.get(pk=answer.json()["task_id"])


def signed(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def github(body: bytes, delivery: str = "", secret: str = SECRET) -> dict[str, str]:
    headers = {"X-Hub-Signature-256": f"sha256={signed(body, secret)}"}
    return headers | ({"X-GitHub-Delivery": delivery} if delivery else {})


def slack(body: bytes, *, ago: float = 0, secret: str = SECRET) -> dict[str, str]:
    stamp = str(int(time.time() - ago))
    result = signed(b"v0:" + stamp.encode() + b":" + body, secret)
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={result}"}


def test_a_post_starts_the_agent(
    http: httpx2.Client, configure: Configure, name: str, path: str, woken: list[bool]
):
    configure(yaml(hook(name, path)))
    answer = post(http, path, {"say": "hello"})
    assert answer.json() == {"ok": True, "task_id": str(runs(name)[0].pk)}
    task = task_of(answer)
    assert (task.agent, task.prompt, task.state) == (
        "assistant",
        "They say hello.",
        "queued",
    )
    assert task.request_id == answer.headers["x-request-id"]
    assert woken


def test_hook_body_is_parsed_as_json_despite_content_type(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    configure(yaml(hook(name, path)))
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert task_of(post(http, path, {"say": "x"}, form)).prompt == "They say x."


def test_a_missing_path_stays_in_the_prompt(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    configure(yaml(hook(name, path)))
    assert task_of(post(http, path, {})).prompt == "They say {{ say }}."


def test_nul_characters_are_removed_from_the_prompt(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    configure(yaml(hook(name, path)))
    assert "\0" not in task_of(post(http, path, {"say": "a\0b"})).prompt


def test_empty_prompt_starts_no_task(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    configure(yaml(hook(name, path, "prompt: '{{say}}'")))
    for nothing in ("", " \n"):
        answer = post(http, path, {"say": nothing})
        assert error(answer, 400)["code"] == "payload_invalid"
        assert "prompt" in answer.text
    assert runs(name) == []
    assert task_of(post(http, path, {"say": 0})).prompt == "0"


def test_the_body_may_name_agent_user_and_thread(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    places = "agent: '{{to.agent}}', user: '{{from}}', thread: '{{room}}'"
    configure(yaml(hook(name, path, places)))
    body = {"to": {"agent": "claude"}, "from": "ada", "room": 7, "say": "x"}
    task = task_of(post(http, path, body))
    assert task.agent == "claude"
    assert task.user_id == identity.derive_user_id("ada")
    assert task.payload["metadata"] == {"thread_id": "7"}

    for part in ("to", "from", "room"):
        rest = {key: value for key, value in body.items() if key != part}
        refusal = error(post(http, path, rest), 400)["message"]
        assert f"no value at '{part}" in refusal
    assert len(runs(name)) == 1


@pytest.mark.parametrize("part", ["", "agent: '{{say}}'"])
def test_overly_nested_value_starts_no_task(
    http: httpx2.Client, configure: Configure, name: str, path: str, part: str
):
    configure(yaml(hook(name, path, part)))
    body = b'{"say": %s%s}' % (b"[" * 600, b"]" * 600)
    assert "nested too deeply" in error(post(http, path, body), 400)["message"]
    assert not runs(name)


@pytest.mark.parametrize("agent", [None, "", "  ", "a\0b", "x" * 256])
def test_invalid_agent_name_starts_no_task(
    http: httpx2.Client, configure: Configure, name: str, path: str, agent: str | None
):
    configure(yaml(hook(name, path, "agent: '{{agent}}'")))
    error(post(http, path, {"agent": agent}), 400)
    assert runs(name) == []


@pytest.mark.parametrize(
    "body", [b"", b"payload=%7B%7D", b"{", b'{"a": NaN}', b"\xff", b"[" * 5000]
)
def test_invalid_json_starts_no_task(
    http: httpx2.Client, configure: Configure, name: str, path: str, body: bytes
):
    configure(yaml(hook(name, path)))
    assert "not JSON" in error(post(http, path, body), 400)["message"]
    assert runs(name) == []


def test_oversized_body_starts_no_task(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    configure(yaml(hook(name, path)))
    refusal = error(post(http, path, {"say": "x" * 256 * 1024}), 413)
    assert (refusal["code"], "262144 bytes" in refusal["message"]) == (
        "body_too_large",
        True,
    )
    error(post(http, path, {"say": "x" * 10_000_000}), 413)
    assert runs(name) == []


def test_other_paths_are_404_and_methods_405(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    configure(yaml(hook(name, path), hook(f"{name}-off", f"{path}/off", "enabled: no")))
    for other in (f"{path}/", f"{path}x", f"{path}/off", "/hooks/", "/hooks"):
        assert post(http, other, {}).status_code == 404
    answer = http.get(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_hook_requires_its_own_secret_instead_of_v1_credentials(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    auth = "auth: {proxy: {basic: {password: of-v1-alone}}}"
    configure(yaml(hook(name, path, LOCKED), more=auth))
    assert task_of(post(http, path, {}, bearer(SECRET)))
    for wrong in (
        {},
        bearer("wrong"),
        {"Authorization": SECRET},
        bearer("of-v1-alone"),
    ):
        refusal = error(post(http, path, {}, wrong), 401)
        assert refusal["code"] == "signature_refused"
        assert SECRET not in json.dumps(refusal)
    assert len(runs(name)) == 1


def test_the_secret_may_come_in_another_header(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    configure(yaml(hook(name, path, f"{LOCKED}, header: X-Gitlab-Token")))
    assert task_of(post(http, path, {}, {"x-gitlab-token": SECRET}))
    error(post(http, path, {}, bearer(SECRET)), 401)
    error(post(http, path, {}, {"X-Gitlab-Token": f"{SECRET}x"}), 401)


def test_browser_page_cannot_post_to_a_hook_without_secret(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    configure(yaml(hook(name, path)))
    error(post(http, path, {}, {"Origin": "https://evil.example"}), 403)
    assert runs(name) == []


def test_github_signature_is_verified(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    configure(yaml(hook(name, path, f"{LOCKED}, signature: github")))
    body = b'{"say": "hi"}'
    # The example in GitHub's documentation.
    example = signed(b"Hello, World!", "It's a Secret to Everybody")
    assert example.startswith(
        "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c"
    )

    assert task_of(post(http, path, body, github(body, "d1"))).prompt == "They say hi."
    wrong = [
        {},
        github(b'{"say": "ho"}'),
        github(body, secret="another"),
        bearer(SECRET),
    ]
    for headers in [*wrong, {"X-Hub-Signature-256": signed(body)}]:
        error(post(http, path, body, headers), 401)
    assert len(runs(name)) == 1


def test_github_ping_starts_no_task(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    configure(yaml(hook(name, path, f"{LOCKED}, signature: github")))
    headers = {**github(b"{}"), "X-GitHub-Event": "ping"}
    answer = post(http, path, b"{}", headers)
    assert answer.json() == {"ok": True, "task_id": None}
    assert runs(name) == []


def test_slack_signature_and_time_are_verified(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    configure(yaml(hook(name, path, f"{LOCKED}, signature: slack")))
    body = b'{"say": "hi"}'
    assert task_of(post(http, path, body, slack(body, ago=100)))

    old = slack(body, ago=400)
    assert "300 seconds" in error(post(http, path, body, old), 401)["message"]
    error(post(http, path, body, slack(body, ago=-400)), 401)
    renewed = {**old, "X-Slack-Request-Timestamp": str(int(time.time()))}
    for headers in (
        {},
        renewed,
        slack(b"{}"),
        slack(body, secret="another"),
        bearer("x"),
    ):
        error(post(http, path, body, headers), 401)
    assert len(runs(name)) == 1


def test_slack_challenge_is_answered(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    configure(yaml(hook(name, path, f"{LOCKED}, signature: slack")))
    body = b'{"type": "url_verification", "challenge": "3eZb"}'
    assert post(http, path, body, slack(body)).json() == {"challenge": "3eZb"}
    error(post(http, path, body), 401)
    assert runs(name) == []


@pytest.mark.parametrize(
    "header", ["Idempotency-Key", "X-GitHub-Delivery", "X-Gitlab-Event-UUID"]
)
def test_repeated_delivery_returns_the_same_task(
    http: httpx2.Client, configure: Configure, name: str, path: str, header: str
):
    configure(yaml(hook(name, path)))
    key = {header: str(uuid.uuid4())}
    first = post(http, path, {"say": "1"}, key).json()
    again = post(http, path, {"say": "1"}, key).json()
    assert again == {**first, "reason": "repeated"}
    post(http, path, {"say": "1"}, {header: str(uuid.uuid4())})
    post(http, path, {"say": "1"})
    assert (len(runs(name)), state(name).repeated) == (3, 1)


def test_replayed_signed_body_starts_one_task(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    others = hook(f"{name}-s", f"{path}/s", f"{LOCKED}, signature: slack")
    configure(yaml(hook(name, path, f"{LOCKED}, signature: github"), others))
    body = b'{"say": "hi"}'
    for _ in range(2):
        task_of(post(http, path, body, github(body)))
    stored = slack(body)
    for index in range(2):
        task_of(
            post(http, f"{path}/s", body, {**stored, "Idempotency-Key": str(index)})
        )
    assert (len(runs(name)), len(runs(f"{name}-s"))) == (1, 1)

    # Slack signs each repetition again, with the same event id.
    event = b'{"event_id": "Ev1"}'
    for ago in (20, 10):
        task_of(post(http, f"{path}/s", event, slack(event, ago=ago)))
    assert len(runs(f"{name}-s")) == 2


def test_parallel_deliveries_start_one_task(
    server: str, http: httpx2.Client, configure: Configure, name: str, path: str
):
    configure(yaml(hook(name, path)))
    together = threading.Barrier(5)
    answers: list[dict[str, Any]] = []

    def send() -> None:
        with httpx2.Client(base_url=server, timeout=60, verify=False) as own:
            together.wait(60)
            answers.append(post(own, path, {}, {"Idempotency-Key": "same"}).json())

    senders = [threading.Thread(target=send) for _ in range(5)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join(60)
    assert len(runs(name)) == 1
    assert {answer["task_id"] for answer in answers} == {str(runs(name)[0].pk)}
    assert [answer.get("reason") for answer in answers].count("repeated") == 4


def test_skip_if_running_skips_while_a_task_is_open(
    http: httpx2.Client, configure: Configure, name: str, path: str, woken: list[bool]
):
    configure(yaml(hook(name, path, "skip_if_running: true")))
    task_of(post(http, path, {}))
    answer = post(http, path, {}).json()
    assert answer == {"ok": True, "task_id": None, "reason": "skipped"}
    assert (state(name).run_count, state(name).skipped, len(woken)) == (1, 1, 1)


def test_hooks_are_refused_when_tasks_are_disabled(
    http: httpx2.Client, configure: Configure, name: str, path: str
):
    configure(yaml(hook(name, path), more="tasks: {enabled: false}"))
    assert error(post(http, path, {}), 403)["code"] == "tasks_disabled"


def test_hook_refusal_is_logged(
    http: httpx2.Client, configure: Configure, name: str, path: str, caplog
):
    configure(yaml(hook(name, path, LOCKED)))
    caplog.set_level("INFO", "triggers.runs.run_log")
    post(http, path, {})
    post(http, path, {}, bearer(SECRET))
    assert f"webhook trigger refused trigger={name} reason=The webhook" in caplog.text
    fired = f"webhook trigger fired trigger={name} agent=assistant task_id="
    assert fired in caplog.text
    assert SECRET not in caplog.text
