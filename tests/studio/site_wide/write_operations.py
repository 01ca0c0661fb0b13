"""All that operators can change, to be done one thing after the other."""

import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import httpx2

from core.ids import UserId, new_turn_id
from core.messages import Message
from judges.runs import judge_queue
from mcp_bridge.models import McpToken
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage
from processes.sidecar_control import sidecar_records
from processes.sidecar_control.sidecar_records import SidecarRecord
from processes.supervision.pidfile import PidFile
from processes.supervision.state_directory import StateDir
from smoke.models import SmokeRun
from studio.security import accounts
from tasks.models import Task
from tasks.queue import lifecycle
from tests.studio.conftest import TWO_PEOPLE

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEY = "a-key-not-to-be-told"
SAID = "Likes plums, which nobody may know."
SECRETS = (
    *(KEY, SAID, "operates-it-all", "bearer-of-a-user"),
    "sk-openai-q7Vd2mXw9Lr4TzK8bNf3HcYs",
)
"""Keys, passwords, and what users say."""

MODEL = {"provider": "openai", "model": "gpt-test"}
AGENT = {"name": "extra", **MODEL}
VARIANTS = [{"agent": "assistant"}, {"agent": "claude"}]
PERSONA = {**MODEL, "preamble": "You are new."}
TRIAL = {"name": "extra", "strategy": "split", "variants": VARIANTS}
TEST = {"name": "extra", "target": "assistant", "persona": PERSONA}
JUDGE = {**AGENT, "rubrics": {"tone": "Politeness."}}
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "agents": ("agent", "forgetful", AGENT),
    "experiments": ("experiment", "trial", TRIAL),
    "smoke": ("smoke_test", "parting", TEST),
    "judges": ("judge", "spare", JUDGE),
}
"""Of each kind: what the audit calls it, one of the file, and one that is made."""

STAGE = (
    TWO_PEOPLE.replace("name: assistant\n", "name: assistant\n    judges: [quality]\n")
    + """
telemetry: {fmt: {enabled: false}}
judges:
  - {name: quality, provider: openai, model: gpt-test, rubrics: {tone: Politeness.}}
  - {name: spare, provider: openai, model: gpt-test, rubrics: {tone: Politeness.}}
experiments:
  - {name: trial, strategy: split, variants: [{agent: assistant}, {agent: claude}]}
smoke_tests:
  - &test
    name: greeting
    target: assistant
    persona: {provider: openai, model: gpt-test, preamble: You are new.}
  - {<<: *test, name: parting}
triggers:
  - {name: daily, type: cron, schedule: "0 9 * * *", agent: assistant, prompt: Hi.}
sidecars:
  - {name: bridge, command: /usr/bin/bridge}
mcp:
  notes: {url: "http://127.0.0.1:9/notes"}
"""
)


@dataclass(frozen=True)
class Write:
    """Something an operator does, and what leaves no word when it is done then."""

    method: str
    route: str
    """The address, as the walk of all addresses names it."""
    path: str
    action: str
    target: str
    body: object = None
    then: tuple[str, object] | None = None
    """Path and body of what is refused, or changes nothing; the same, if none."""

    def but_not(self, path: str, body: object = None) -> "Write":
        """Return it with what is refused."""
        return Write(**{**self.__dict__, "then": (path, body)})


class Cast:
    """Whom and what there is to be changed; all of it is gone afterwards."""

    def __init__(self, http: httpx2.Client, files: StateDir) -> None:
        self.http, self.files = http, files
        self.user = UserId(uuid.uuid4())
        self._lock = PidFile(files.sidecars_pid)
        self._before = set(Task.objects.values_list("pk", flat=True))

    def __enter__(self) -> Self:
        self._lock.acquire()
        record = SidecarRecord("bridge", "running", 1, "", 4321, time.time(), 0)
        sidecar_records.write_record(self.files.sidecars, os.getpid(), [record])
        accounts.get_or_create_user("paula")
        self.fact = self._made(f"users/{self.user}/facts", content=SAID)
        self.token = self._made("tokens", label="x", principal="p")
        self.waiting, self.failed = self._task("queued"), self._task("errored")
        launched = self.http.post("/admin/smoke/greeting/runs", json={}).json()
        self.run = launched["runs"][0]["id"]
        self._reply()
        self._fall()
        McpToken.objects.create(
            server="notes",
            resource="http://127.0.0.1:9/notes",
            key_id="key",
            access_token=b"bearer-of-a-user",
            user_id=self.user,
            created_at=AT,
            updated_at=AT,
        )
        return self

    def __exit__(self, *exc: object) -> None:
        self._lock.release()
        McpToken.objects.filter(user_id=self.user).delete()
        SmokeRun.objects.all().delete()
        Task.objects.exclude(pk__in=self._before).delete()

    def _made(self, place: str, **body: object) -> str:
        made = self.http.post(f"/admin/{place}", json=body)
        assert made.status_code == 201, made.text
        return str(made.json()["id"])

    def _task(self, its: str) -> str:
        made = Task.objects.create(
            kind="agent",
            agent="assistant",
            prompt=SAID,
            origin="api",
            user_id=self.user,
            state=its,
            created_at=AT,
            # Nobody takes it.
            due_at=AT + timedelta(days=36_500),
        )
        return str(made.pk)

    def _reply(self) -> None:
        said = [NewMessage(Message("user", SAID), 5)]
        said.append(
            NewMessage(
                Message("assistant", SAID), 5, agent="assistant", finish_reason="stop"
            )
        )
        message_store.append_turn(self.user, "", new_turn_id(), said)

    def _fall(self) -> None:
        """Have a judge fail at a reply."""
        draft = judge_queue.build_task(
            *("quality", "assistant"), turn_id=new_turn_id(), user_id=self.user
        )
        (task,) = lifecycle.enqueue([draft])
        Task.objects.filter(pk=task.pk).update(state="errored", finished_at=AT)

    def told(self, path: str) -> dict[str, Any]:
        """Return what a section says."""
        told = self.http.get(path, headers={"Accept": "application/json"})
        return dict(told.json())


def changes(cast: Cast) -> Iterator[Write]:
    """Yield all that is done, each after the one before."""
    for kind in KINDS:
        yield from _of_kind(kind)
    yield from _of_work(cast)
    # Erased with all there is of them.
    yield from _of_users(cast)
    yield from _of_file(cast)


def _of_kind(kind: str) -> Iterator[Write]:
    noun, known, entry = KINDS[kind]
    place, route = f"/admin/{kind}", f"/admin/{kind}/somewhat"
    one, written = f"{place}/extra", f"{place}/{known}"
    yield Write("POST", place, place, f"{noun}.create", "extra", entry)
    other = dict(reversed(entry.items()))
    yield Write("PUT", route, one, f"{noun}.save", "extra", other)
    yield Write("DELETE", route, one, f"{noun}.delete", "extra")
    yield Write("DELETE", route, written, f"{noun}.disable", known)
    reset = f"{written}/reset"
    yield Write("POST", f"{route}/reset", reset, f"{noun}.reset", known)


def _of_users(cast: Cast) -> Iterator[Write]:
    some, place = "/admin/users/somewhat", f"/admin/users/{cast.user}"
    facts, one = f"{place}/facts", f"{place}/facts/{cast.fact}"
    route = f"{some}/facts/somewhat"
    new = {"content": f"{SAID} {SAID}"}
    add = Write("POST", f"{some}/facts", facts, "memory.create", "mem_", new)
    yield add.but_not(facts, {"content": ""})
    other = {"content": f"{SAID} Nobody."}
    change = Write("PATCH", route, one, "memory.change", cast.fact, other)
    yield change.but_not(one, {})
    gone = Write("DELETE", route, one, "memory.delete", cast.fact)
    yield gone.but_not(f"{facts}/mem_none")
    user = str(cast.user)
    take = Write("GET", f"{some}/export", f"{place}/export", "user.export", user)
    yield take.but_not(f"/admin/users/{'x' * 600}/export")
    leave = f"/admin/mcp/notes/connections/{cast.user}"
    route = "/admin/mcp/somewhat/connections/00000000-0000-0000-0000-000000000000"
    yield Write("DELETE", route, leave, "mcp.disconnect", "mcp server notes")
    erase = Write("DELETE", some, place, "user.erase", user)
    yield erase.but_not(f"/admin/users/{'x' * 600}")
    wanted = {"label": "y", "principal": "q", "budget": "total", "limit_usd": 5}
    mint = Write("POST", "/admin/tokens", "/admin/tokens", "token.create", "", wanted)
    yield mint.but_not("/admin/tokens", {**wanted, "budget": "unlimited"})
    token = f"/admin/tokens/{cast.token}"
    yield Write("DELETE", "/admin/tokens/somewhat", token, "token.revoke", cast.token)
    route, paula = "/admin/accounts/somewhat", "/admin/accounts/paula"
    given = {"role": "viewer"}
    yield Write("PUT", route, paula, "account.change", "paula", given).but_not(
        "/admin/accounts/olga", given
    )


def _of_work(cast: Cast) -> Iterator[Write]:
    judge, route = "/admin/judges/quality", "/admin/judges/somewhat"
    one = {"limit": 1}
    past = f"{judge}/past-replies"
    yield Write(
        "POST", f"{route}/past-replies", past, "judge.backfill", "quality", one
    ).but_not(past, {"since": "1h", "agent": "assistant", "sample": 1e-9})
    yield Write("POST", f"{route}/retry", f"{judge}/retry", "judge.retry", "quality")
    route = "/admin/tasks/somewhat"
    end = f"/admin/tasks/{cast.waiting}/cancel"
    yield Write("POST", f"{route}/cancel", end, "task.cancel", cast.waiting)
    retry = f"/admin/tasks/{cast.failed}/retry"
    yield Write("POST", f"{route}/retry", retry, "task.retry", cast.failed)
    runs = "/admin/smoke/greeting/runs"
    launch = Write(
        *("POST", "/admin/smoke/somewhat/runs", runs, "smoke_test.run", "greeting"),
        {"repetitions": 2},
    )
    yield launch.but_not(runs, {"repetitions": 0})
    end = f"/admin/smoke/runs/{cast.run}/cancel"
    route = "/admin/smoke/runs/somewhat/cancel"
    yield Write("POST", route, end, "smoke_test.cancel", "greeting", {})
    run = Write(
        *("POST", "/admin/triggers/somewhat/run", "/admin/triggers/daily/run"),
        *("trigger.run", "daily"),
    )
    yield run.but_not("/admin/triggers/nobody/run")
    start = Write(
        *("POST", "/admin/sidecars/somewhat/restart", "/admin/sidecars/bridge/restart"),
        *("sidecar.restart", "bridge"),
    )
    yield start.but_not("/admin/sidecars/nobody/restart")


def _of_file(cast: Cast) -> Iterator[Write]:
    def put(route: str, path: str, body: object, wrong: object) -> Write:
        written = Write("PUT", route, path, "config.write", "coulisse.yaml", body)
        return written.but_not(path, wrong)

    def section(key: str, more: dict[str, Any]) -> Write:
        path = f"/admin/{key}"
        said = {**cast.told(path), **more}
        return put(path, path, said, {**said, "nonsense": KEY})

    secret = {"api_key": KEY}
    server = {"url": "http://127.0.0.1:9/mcp", "oauth": False}
    server["headers"] = {"Authorization": f"Bearer {KEY}"}
    for key, entry in {
        "mcp": {"name": "more", **server},
        "providers": {"kind": "groq", "name": "more", **secret},
    }.items():
        place, route = f"/admin/{key}", f"/admin/{key}/somewhat"
        one = f"{place}/more"
        yield Write("POST", place, place, "config.write", "coulisse.yaml", entry)
        said = {name: it for name, it in entry.items() if name != "name"}
        said["timeout_seconds" if key == "mcp" else "retries"] = 3
        yield put(route, one, said, {**said, "nonsense": 1})
        yield Write("DELETE", route, one, "config.write", "coulisse.yaml")
        other = {**cast.told(place), "other": said}
        yield put(place, place, other, {**other, "nonsense": KEY})
    yield section("telemetry", {"sqlite": {"enabled": True}})
    yield section("memory", {"user_state": True})
    settings = "/admin/memory/settings"
    yield put(settings, settings, {"user_state": False}, {"nonsense": KEY})
    admin = cast.told("/admin/auth")["admin"]
    yield section("auth", {"admin": {**admin, "newcomers": "viewer"}})
    some, one = "/admin/settings/somewhat", "/admin/settings/vars"
    yield put(some, one, {"A": KEY}, [KEY])
    yield Write("DELETE", some, one, "config.write", "coulisse.yaml")
    asks = "/admin/tokens/enable"
    yield Write("POST", asks, asks, "config.write", "coulisse.yaml")
    for path in ("/admin/config", "/admin/config/edit"):
        said = cast.told("/admin/config")
        said["vars"] = {"B": f"{KEY}{path}"}
        yield put(path, path, said, {**said, "agents": []})
