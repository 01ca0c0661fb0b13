"""All write operations of the studio, in an order in which they succeed."""

import json
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import httpx2

from access.authentication import accounts
from config.loading.overlays import Overlay
from config.models import Override
from core.ids import UserId, new_turn_id
from core.messages import Message
from files.models import File
from judges.models import Score
from judges.runs import judge_queue
from mcp_bridge.models import McpToken
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage
from processes.sidecar_control import sidecar_records
from processes.supervision.pidfile import PidFile
from processes.supervision.run_state import ChildRecord
from processes.supervision.state_directory import StateDir
from smoke.models import SmokeRun
from tasks.models import Task
from tests.studio.conftest import TWO_PEOPLE
from tests.telemetry.sample_turns import store_turn
from triggers.models import PeriodicAgentTask

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEY = "a-key-to-be-hidden"
FACT_TEXT = "Likes plums, a secret."
SECRETS = (
    KEY,
    FACT_TEXT,
    "operates-it-all",
    "bearer-of-a-user",
    "sk-openai-q7Vd2mXw9Lr4TzK8bNf3HcYs",
)
"""Keys, passwords and texts of users."""

MODEL = {"provider": "openai", "model": "gpt-test"}
AGENT = {"name": "extra", **MODEL}
VARIANTS = [{"agent": "assistant"}, {"agent": "claude"}]
PERSONA = {**MODEL, "preamble": "You are new."}
EXPERIMENT = {"name": "extra", "strategy": "split", "variants": VARIANTS}
TEST = {"name": "extra", "target": "assistant", "persona": PERSONA}
JUDGE = {**AGENT, "rubrics": {"tone": "Politeness."}}
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "agents": ("agent", "forgetful", AGENT),
    "experiments": ("experiment", "trial", EXPERIMENT),
    "smoke": ("smoke_test", "parting", TEST),
    "judges": ("judge", "spare", JUDGE),
}
"""By kind: its noun in the audit, an entry of the file, and a new entry."""

CONFIG_TEXT = (
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
    """A write operation, and a request after it that must not be audited."""

    method: str
    route: str
    """The address with placeholders, as `test_addresses.list_views` returns it."""
    path: str
    action: str
    target: str
    body: object = None
    unaudited: tuple[str, object] | None = None
    """Path and body of a refused or repeated request; by default the same request."""

    def with_unaudited(self, path: str, body: object = None) -> "Write":
        """Return the operation with another unaudited request."""
        return Write(**{**self.__dict__, "unaudited": (path, body)})


PERIODIC_TASK = {
    "agent": "assistant",
    "prompt": FACT_TEXT,
    "cron": "0 9 * * *",
    "time_zone": "UTC",
    "catch_up": "false",
}


class WriteTargets:
    """The objects that the operations change; deleted on exit."""

    def __init__(self, http: httpx2.Client, files: StateDir) -> None:
        self.http, self.files = http, files
        self.user = UserId(uuid.uuid4())
        self._lock = PidFile(files.sidecars_pid)
        self._before = set(Task.objects.values_list("pk", flat=True))

    def __enter__(self) -> Self:
        self._lock.acquire()
        record = ChildRecord("bridge", "running", 1, "", 4321, time.time(), 0)
        sidecar_records.write_record(self.files.sidecars, os.getpid(), [record])
        accounts.get_or_create_user("paula")
        self.fact = self._create(f"users/{self.user}/facts", content=FACT_TEXT)
        self.token = self._create("tokens", label="x", principal="p")
        self.token_2 = self._create("tokens", label="z", principal="p")
        self.group = self._create("groups", name=f"group-{uuid.uuid4().hex[:8]}")
        name = f"periodic-{uuid.uuid4().hex[:8]}"
        self.periodic_task = self._create("periodic-tasks", **PERIODIC_TASK, name=name)
        self.waiting = self._create_task("queued")
        self.failed = self._create_task("errored")
        self.waiting_run = self._create_task("queued", "trigger:daily")
        self.failed_run = self._create_task("errored", "trigger:daily")
        batch = self.http.post("/admin/smoke/greeting/runs", json={}).json()
        self.run = batch["runs"][0]["id"]
        batch = self.http.post("/admin/smoke/greeting/runs", json={}).json()
        self.run_2 = batch["runs"][0]["id"]
        self._store_turn()
        self._fail_judging()
        self.connect(self.user)
        return self

    def connect(self, user: uuid.UUID) -> int:
        rest = {"key_id": "key", "created_at": AT, "updated_at": AT}
        rest |= {"server": "notes", "resource": "http://127.0.0.1:9/notes"}
        rest |= {"user_id": user, "access_token": b"bearer-of-a-user"}
        return McpToken.objects.create(**rest).pk

    def __exit__(self, *exc: object) -> None:
        self._lock.release()
        McpToken.objects.filter(server="notes").delete()
        Override.objects.filter(name="extra").delete()
        SmokeRun.objects.all().delete()
        PeriodicAgentTask.objects.filter(prompt=FACT_TEXT).delete()
        Task.objects.exclude(pk__in=self._before).delete()

    def _create(self, place: str, **body: object) -> str:
        created = self.http.post(f"/admin/{place}", json=body)
        assert created.status_code == 201, created.text
        return str(created.json()["id"])

    def _create_task(self, state: str, origin: str = "api") -> str:
        created = Task.objects.create(
            kind="agent",
            agent="assistant",
            prompt=FACT_TEXT,
            origin=origin,
            user_id=self.user,
            state=state,
            created_at=AT,
            # No worker claims it.
            due_at=AT + timedelta(days=36_500),
        )
        return str(created.pk)

    def _store_turn(self) -> None:
        messages = [NewMessage(Message("user", FACT_TEXT), 5)]
        messages.append(
            NewMessage(
                Message("assistant", FACT_TEXT),
                5,
                agent="assistant",
                finish_reason="stop",
            )
        )
        message_store.append_turn(self.user, "", new_turn_id(), messages)

    def _fail_judging(self) -> None:
        """Add a failed task of a judge."""
        draft = judge_queue.build_task(
            "quality", "assistant", turn_id=new_turn_id(), user_id=self.user
        )
        (task,) = Task.objects.enqueue([draft])
        Task.objects.filter(pk=task.pk).update(state="errored", finished_at=AT)

    def section_data(self, path: str) -> dict[str, Any]:
        """Return the data of a section."""
        response = self.http.get(path, headers={"Accept": "application/json"})
        return dict(response.json())


def list_writes(targets: WriteTargets) -> Iterator[Write]:
    """Yield all write operations in order."""
    for kind in KINDS:
        yield from _entry_writes(kind)
    yield from _override_writes()
    yield from _work_writes(targets)
    # Erases the user's tasks, too.
    yield from _user_writes(targets)
    yield from _file_writes(targets)


def _entry_writes(kind: str) -> Iterator[Write]:
    noun, names, entry = KINDS[kind]
    place, route = f"/admin/{kind}", f"/admin/{kind}/somewhat"
    one, written = f"{place}/extra", f"{place}/{names}"
    yield Write("POST", place, place, f"{noun}.create", "extra", entry)
    other = dict(reversed(entry.items()))
    yield Write("PUT", route, one, f"{noun}.save", "extra", other)
    yield Write("DELETE", route, one, f"{noun}.delete", "extra")
    yield Write("DELETE", route, written, f"{noun}.disable", names)
    reset = f"{written}/reset"
    yield Write("POST", f"{route}/reset", reset, f"{noun}.reset", names)


def _override_writes() -> Iterator[Write]:
    text = json.dumps(KINDS["judges"][2])
    Override.objects.store(Overlay("judges", "extra", text), by="studio: olga")
    row = Override.objects.get(section="judges", name="extra")
    path, route = (f"/admin/overrides/{key}/remove" for key in (row.pk, "somewhat"))
    yield Write("POST", route, path, "judge.delete", "extra")


def _user_writes(targets: WriteTargets) -> Iterator[Write]:
    some, place = "/admin/users/somewhat", f"/admin/users/{targets.user}"
    facts, one = f"{place}/facts", f"{place}/facts/{targets.fact}"
    route = f"{some}/facts/somewhat"
    new = {"content": f"{FACT_TEXT} {FACT_TEXT}"}
    add = Write("POST", f"{some}/facts", facts, "memory.create", "mem_", new)
    yield add.with_unaudited(facts, {"content": ""})
    other = {"content": f"{FACT_TEXT} Really."}
    change = Write("PATCH", route, one, "memory.change", targets.fact, other)
    yield change.with_unaudited(one, {})
    for action in (
        *("pin", "unpin", "review", "accept", "review", "reject", "restore"),
        *("forget", "restore"),
    ):
        is_deletion = action in ("reject", "forget")
        name = "memory.delete" if is_deletion else "memory.change"
        yield Write("POST", f"{route}/{action}", f"{one}/{action}", name, targets.fact)
    deleted = Write("DELETE", route, one, "memory.delete", targets.fact)
    yield deleted.with_unaudited(f"{facts}/mem_none")
    yield Write("POST", f"{route}/purge", f"{one}/purge", "memory.delete", targets.fact)
    user = str(targets.user)
    take = Write("GET", f"{some}/export", f"{place}/export", "user.export", user)
    yield take.with_unaudited(f"/admin/users/{'x' * 600}/export")
    leave = f"/admin/mcp/notes/connections/{targets.user}"
    route = "/admin/mcp/somewhat/connections/00000000-0000-0000-0000-000000000000"
    yield Write("DELETE", route, leave, "mcp.disconnect", "mcp server notes")
    route, sign_in = "/admin/mcp-sign-ins/{}/disconnect", targets.connect(uuid.uuid4())
    leave, route = route.format(sign_in), route.format("somewhat")
    yield Write("POST", route, leave, "mcp.disconnect", "notes")
    yield from _upload_writes(targets.user)
    erase = Write("DELETE", some, place, "user.erase", user)
    yield erase.with_unaudited(f"/admin/users/{'x' * 600}")
    yield add.with_unaudited(facts, {"content": ""})
    yield Write("POST", f"{some}/erase", f"{place}/erase", "user.erase", user)
    token = {"label": "y", "principal": "q", "budget": "total", "limit_usd": 5}
    place = "/admin/tokens"
    create = Write("POST", place, place, "token.create", "", token)
    yield create.with_unaudited(place, {**token, "budget": "unlimited"})
    path = f"{place}/{targets.token}"
    yield Write("DELETE", f"{place}/somewhat", path, "token.revoke", targets.token)
    path, route = f"{place}/{targets.token_2}/revoke", f"{place}/somewhat/revoke"
    yield Write("POST", route, path, "token.revoke", targets.token_2)
    place = "/admin/groups"
    name = f"spenders-{uuid.uuid4().hex[:8]}"
    create = Write("POST", place, place, "group.create", name, {"name": name})
    yield create  # Repeated, it is refused: the name is taken.
    yield Write(
        "PATCH",
        f"{place}/somewhat",
        f"{place}/{targets.group}",
        "group.change",
        "others",
        {"name": f"others-{uuid.uuid4().hex[:8]}"},
    )
    route, paula = "/admin/accounts/somewhat", "/admin/accounts/paula"
    off = {"is_active": False}
    yield Write("PATCH", route, paula, "account.change", "paula", off)
    given = {"role": "viewer"}
    yield Write("PUT", route, paula, "account.change", "paula", given).with_unaudited(
        "/admin/accounts/olga", given
    )


def _upload_writes(user: object) -> Iterator[Write]:
    place = "/admin/files"
    for number, (method, action) in enumerate((("DELETE", ""), ("POST", "/remove"))):
        file = File.objects.create(
            user_id=user,
            filename="a.txt",
            purpose="user_data",
            content_type="text/plain",
            size=1,
            sha256=f"{number}" * 64,
            created_at=AT,
        )
        one, route = f"{place}/{file.pk}{action}", f"{place}/somewhat{action}"
        yield Write(method, route, one, "file.delete", file.file_id)


def _periodic_task_writes(targets: WriteTargets) -> Iterator[Write]:
    place, key = "/admin/periodic-tasks", targets.periodic_task
    route, one, name = f"{place}/somewhat", f"{place}/{key}", uuid.uuid4().hex
    task = {**PERIODIC_TASK, "name": name}
    yield Write("POST", place, place, "periodic_task.create", name, task)
    yield Write("PATCH", route, one, "periodic_task.change", "", {"user": "dora"})
    for verb in ("pause", "resume"):
        audited = f"periodic_task.{verb}"
        yield Write("POST", f"{route}/{verb}", f"{one}/{verb}", audited, key)
    run = Write("POST", f"{route}/run", f"{one}/run", "periodic_task.run", key)
    yield run.with_unaudited(f"{place}/0/run")


def _work_writes(targets: WriteTargets) -> Iterator[Write]:
    judge, route = "/admin/judges/quality", "/admin/judges/somewhat"
    one = {"limit": 1}
    past = f"{judge}/past-replies"
    yield Write(
        "POST", f"{route}/past-replies", past, "judge.backfill", "quality", one
    ).with_unaudited(past, {"since": "1h", "agent": "assistant", "sample": 1e-9})
    yield Write("POST", f"{route}/retry", f"{judge}/retry", "judge.retry", "quality")
    turn = str(store_turn(user_id=targets.user).turn_id)
    again = f"/admin/turns/{turn}/judge"
    yield Write("POST", "/admin/turns/somewhat/judge", again, "turn.judge", turn)
    reply = {"turn_id": new_turn_id(), "user_id": targets.user, "judge": "quality"}
    score = Score.objects.create(**reply, agent="assistant", value=3, judged_at=AT)
    again = f"/admin/scores/{score.pk}/judge"
    route = "/admin/scores/somewhat/judge"
    yield Write("POST", route, again, "score.judge", str(score.pk))
    route = "/admin/tasks/somewhat"
    end = f"/admin/tasks/{targets.waiting}/cancel"
    yield Write("POST", f"{route}/cancel", end, "task.cancel", targets.waiting)
    retry = f"/admin/tasks/{targets.failed}/retry"
    yield Write("POST", f"{route}/retry", retry, "task.retry", targets.failed)
    route = "/admin/trigger-runs/somewhat"
    end = f"/admin/trigger-runs/{targets.waiting_run}/cancel"
    yield Write("POST", f"{route}/cancel", end, "task.cancel", targets.waiting_run)
    retry = f"/admin/trigger-runs/{targets.failed_run}/retry"
    yield Write("POST", f"{route}/retry", retry, "task.retry", targets.failed_run)
    runs = "/admin/smoke/greeting/runs"
    launch = Write(
        "POST",
        "/admin/smoke/somewhat/runs",
        runs,
        "smoke_test.run",
        "greeting",
        {"repetitions": 2},
    )
    yield launch.with_unaudited(runs, {"repetitions": 0})
    end = f"/admin/smoke/runs/{targets.run}/cancel"
    route = "/admin/smoke/runs/somewhat/cancel"
    yield Write("POST", route, end, "smoke_test.cancel", targets.run, {})
    yield from _periodic_task_writes(targets)
    end = f"/admin/smoke-conversations/{targets.run_2}/cancel"
    route = "/admin/smoke-conversations/somewhat/cancel"
    yield Write("POST", route, end, "smoke_test.cancel", targets.run_2)
    run = Write(
        "POST",
        "/admin/triggers/somewhat/run",
        "/admin/triggers/daily/run",
        "trigger.run",
        "daily",
    )
    yield run.with_unaudited("/admin/triggers/unknown/run")
    start = Write(
        "POST",
        "/admin/sidecars/somewhat/restart",
        "/admin/sidecars/bridge/restart",
        "sidecar.restart",
        "bridge",
    )
    yield start.with_unaudited("/admin/sidecars/unknown/restart")


def _file_writes(targets: WriteTargets) -> Iterator[Write]:
    def put(route: str, path: str, body: object, invalid: object) -> Write:
        write = Write("PUT", route, path, "config.write", "coulisse.yaml", body)
        return write.with_unaudited(path, invalid)

    def section(key: str, more: dict[str, Any]) -> Write:
        path = f"/admin/{key}"
        data = {**targets.section_data(path), **more}
        return put(path, path, data, {**data, "nonsense": KEY})

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
        data = {name: value for name, value in entry.items() if name != "name"}
        data["timeout_seconds" if key == "mcp" else "retries"] = 3
        yield put(route, one, data, {**data, "nonsense": 1})
        yield Write("DELETE", route, one, "config.write", "coulisse.yaml")
        other = {**targets.section_data(place), "other": data}
        yield put(place, place, other, {**other, "nonsense": KEY})
    yield section("telemetry", {"sqlite": {"enabled": True}})
    yield section("memory", {"user_state": True})
    settings = "/admin/memory/settings"
    yield put(settings, settings, {"user_state": False}, {"nonsense": KEY})
    admin = targets.section_data("/admin/auth")["admin"]
    yield section("auth", {"admin": {**admin, "newcomers": "viewer"}})
    yield section("storage", {"max_file_bytes": 1000})
    some, one = "/admin/settings/somewhat", "/admin/settings/vars"
    yield put(some, one, {"A": KEY}, [KEY])
    yield Write("DELETE", some, one, "config.write", "coulisse.yaml")
    enable = "/admin/tokens/enable"
    yield Write("POST", enable, enable, "config.write", "coulisse.yaml")
    for path in ("/admin/config", "/admin/config/edit"):
        data = targets.section_data("/admin/config")
        data["vars"] = {"B": f"{KEY}{path}"}
        yield put(path, path, data, {**data, "agents": []})
