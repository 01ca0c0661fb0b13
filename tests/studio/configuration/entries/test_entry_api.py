"""Agents, judges, experiments and smoke tests in the studio: pages and their API."""

from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from ruamel.yaml import YAML

from access.models import AuditEntry
from config import live
from config.models import Override, OverrideVersion
from studio.configuration import agent_details, agent_references
from studio.configuration.entry_types import KINDS
from tests.conftest import CONFIG

pytestmark = pytest.mark.database

YAML_TYPE = {"Content-Type": "application/yaml"}
FULL = (
    CONFIG.replace("    preamble: You are a test assistant.\n", "", 1)
    + """
  - name: team
    provider: openai
    model: gpt-test
    judges: [quality]
    subagents: [tuned]
    fallbacks: [forgetful]
judges:
  - name: quality
    provider: openai
    model: gpt-j
    rubrics: {clear: It is clear.}
experiments:
  - name: trial
    strategy: split
    variants: [{agent: tuned}, {agent: claude}]
  - name: best
    strategy: bandit
    metric: quality.clear
    variants: [{agent: team}]
smoke_tests:
  - name: greeting
    target: tuned
    persona: {provider: openai, model: p, preamble: x}
"""
)
BOB = "name: bob\nprovider: openai\nmodel: gpt-x # the new one\n"
NEW = {
    "agents": BOB,
    "experiments": "name: bob\nstrategy: split\nvariants: [{agent: tuned}]\n",
    "judges": "name: bob\nprovider: openai\nmodel: j\nrubrics: {a: b}\n",
    "smoke": (
        "name: bob\ntarget: claude\n"
        "persona: {provider: openai, model: p, preamble: x}\n"
    ),
}


@pytest.fixture(autouse=True)
def _nothing_stored(database):
    forget()
    yield
    forget()


@pytest.fixture
def server(running, configure):
    """The server's URL, with all four kinds in its file."""
    configure(FULL)
    return running


def forget():
    Override.objects.all().delete()
    OverrideVersion.objects.all().delete()


def put(script, path, text, headers=YAML_TYPE):
    return script.put(f"/admin/{path}", content=text, headers={**YAML_TYPE, **headers})


def post(script, path, text):
    return script.post(f"/admin/{path}", content=text, headers=YAML_TYPE)


def labels(script, kind="agents"):
    listed = script.get(f"/admin/{kind}").json()["data"]
    return {entry["name"]: entry["label"] for entry in listed}


# What scripts do.


def test_script_overrides_and_resets_an_entry(script):
    answer = put(script, "agents/tuned", BOB.replace("bob", "tuned"))
    assert answer.status_code == 200
    told = answer.json()
    assert (told["label"], told["config"]["model"]) == ("override", "gpt-x")
    assert "+model: gpt-x # the new one" in told["diff"]
    assert labels(script)["tuned"] == "override"
    assert script.post("/admin/agents/tuned/reset").json()["label"] == "yaml"
    assert script.post("/admin/agents/tuned/reset").status_code == 409


def test_clients_see_changes_at_once(script, client, fake):
    assert post(script, "agents", BOB).status_code == 201
    assert "bob" in [model.id for model in client.models.list()]
    script.delete("/admin/agents/forgetful")
    assert script.delete("/admin/agents/claude").status_code == 422
    script.delete("/admin/agents/bob")
    assert "bob" not in [model.id for model in client.models.list()]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.path)
def test_every_kind_is_created_changed_and_deleted(script, browser, kind):
    answer = post(script, kind.path, NEW[kind.path])
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"] == f"/admin/{kind.path}/bob"
    address = f"{kind.path}/bob"
    assert script.get(f"/admin/{address}").json()["label"] == "dynamic"
    assert post(script, kind.path, NEW[kind.path]).status_code == 409
    # What a script gets it can send back.
    config = script.get(f"/admin/{address}").json()["config"]
    assert script.put(f"/admin/{address}", json=config).status_code == 200
    for page in (kind.path, address, f"{address}/edit", f"{kind.path}/new"):
        assert browser.get(f"/admin/{page}").status_code == 200
    assert script.delete(f"/admin/{address}").json() == {"name": "bob", "deleted": True}
    assert script.get(f"/admin/{address}").status_code == 404


def test_entry_as_yaml_is_returned_as_written(script):
    post(script, "agents", BOB)
    wanted = {"Accept": "application/yaml"}
    told = script.get("/admin/agents/bob", headers=wanted)
    assert told.text == BOB
    assert script.get("/admin/agents/tuned?format=yaml").text == (
        "name: tuned\nprovider: openai\nmodel: gpt-test\ntemperature: 0.0\n"
        "max_tokens: 50\nseed: 7\n"
    )
    assert put(script, "agents/bob", told.text).status_code == 200
    listed = YAML(typ="safe").load(script.get("/admin/agents?format=yaml").text)
    assert listed["data"][-1]["name"] == "bob"


def test_validation_errors_are_returned_verbatim(script):
    answer = put(script, "agents/tuned", "name: tuned\nprovider: opena\nmodel: x\n")
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["message"] == (
        "agent 'tuned' in the studio:2:1: agent 'tuned' uses provider 'opena', which "
        "is not under providers:; did you mean 'openai'?"
    )
    assert (error["problems"][0]["line"], error["problems"][0]["column"]) == (2, 1)
    answer = script.delete("/admin/agents/tuned")
    assert answer.status_code == 422
    assert "experiment 'trial' has the variant 'tuned'" in answer.text
    assert "agent 'team' calls agent 'tuned'" in answer.text
    assert "smoke test 'greeting' talks to 'tuned'" in answer.text


@pytest.mark.parametrize(
    ("method", "path", "text", "status", "said"),
    [
        ("PUT", "agents/tuned", "name: [", 400, "not valid YAML"),
        ("PUT", "agents/tuned", "- a", 400, "map"),
        ("PUT", "agents/tuned", BOB, 422, "in the URL"),
        (
            "PUT",
            "agents/nobody",
            BOB.replace("bob", "nobody"),
            404,
            "there is no agent",
        ),
        ("PUT", "agents/tuned?version=x", BOB, 400, "whole number"),
        ("POST", "agents", BOB.replace("bob", "tuned"), 409, "already has the name"),
        ("POST", "agents", "provider: openai\n", 422, "'name' is missing"),
        ("POST", "agents", BOB.replace("bob", "new"), 422, "a page of the studio"),
        ("DELETE", "agents/nobody", "", 404, "there is no agent"),
        ("POST", "agents/nobody/reset", "", 404, "there is no agent"),
        ("POST", "agents/tuned/reset", "", 409, "has no override to reset"),
        ("GET", "agents/nobody", "", 404, "there is no agent"),
        ("GET", "agents/nobody/edit", "", 404, "there is no agent"),
        ("GET", "agents/tuned/edit?from=7", "", 404, "has no version 7"),
        ("GET", f"agents/tuned/edit?from={'9' * 30}", "", 404, "no version"),
        ("GET", "agents/tuned/edit?from=x", "", 404, "no version"),
        ("GET", "agents/tuned/reset", "", 405, ""),
    ],
)
def test_invalid_request_is_refused(script, method, path, text, status, said):
    answer = script.request(
        method, f"/admin/{path}", content=text, headers=YAML_TYPE if text else {}
    )
    assert answer.status_code == status, answer.text
    assert said in answer.json()["error"]["message"]
    assert not OverrideVersion.objects.exists()


def test_outdated_version_is_refused(script):
    post(script, "agents", BOB)
    shown = script.get("/admin/agents/bob").json()["version"]
    newer = BOB.replace("gpt-x", "gpt-y")
    assert put(script, f"agents/bob?version={shown}", newer).status_code == 200
    answer = put(script, f"agents/bob?version={shown}", BOB)
    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "changed_meanwhile"
    assert script.delete(f"/admin/agents/bob?version={shown}").status_code == 409
    matched = {"If-Match": f'"{shown}"'}
    assert script.delete("/admin/agents/bob", headers=matched).status_code == 409
    assert script.delete("/admin/agents/bob").status_code == 200


@pytest.mark.parametrize("kind", ["application/json", "application/yaml"])
def test_etag_guards_against_lost_updates(script, kind):
    made = post(script, "agents", BOB)
    shown = script.get("/admin/agents/bob", headers={"Accept": kind}).headers["ETag"]
    assert shown == made.headers["ETag"]
    answer = put(script, "agents/bob", BOB.replace("gpt-x", "y"), {"If-Match": shown})
    assert answer.status_code == 200
    assert answer.headers["ETag"] != shown
    late = put(script, "agents/bob", BOB, {"If-Match": shown})
    assert late.status_code == 409
    assert put(script, "agents/bob", BOB, {"If-Match": "*"}).status_code == 200


def test_form_fields_make_an_entry(script):
    fields = {"name": "bob", "provider": "openai", "model": "gpt-x", "max_turns": "3"}
    made = script.post("/admin/agents", data=fields)
    assert made.status_code == 201, made.text
    assert made.json()["yaml"] == (
        "name: bob\nprovider: openai\nmodel: gpt-x\nmax_turns: '3'\n"
    )
    late = script.put("/admin/agents/bob", data={**fields, "version": "0"})
    assert late.status_code == 409
    nothing = script.post("/admin/agents", data={"version": "0"})
    assert nothing.status_code == 422
    assert "is empty" in nothing.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "said"), [(b"name: b\xff", "not UTF-8"), (b"\n", "empty; send one agent")]
)
def test_non_text_body_is_refused(script, body, said):
    answer = put(script, "agents/tuned", body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


def test_names_may_contain_any_characters(script, browser):
    name = "team/é 100%?"
    text = f"name: {name!r}\nprovider: openai\nmodel: m\n"
    where = post(script, "agents", text).headers["Location"]
    assert script.get(where).json()["name"] == name
    page = browser.get(where)
    assert f'action="{where}"' in page.text.replace("%C3%A9", "%C3%A9")
    assert browser.get(f"{where}/edit").status_code == 200
    assert script.delete(where).status_code == 200


def test_extra_body_placeholders_are_shown_unresolved(script, browser, monkeypatch):
    monkeypatch.setenv("SOME_SECRET", "hush-hush-hush")
    text = BOB + "extra_body: {key: '${SOME_SECRET}'}\n"
    assert post(script, "agents", text).status_code == 201
    told = script.get("/admin/agents/bob").json()
    assert told["yaml"] == text
    assert told["history"][0]["yaml"] == text
    for path in ("agents/bob", "agents/bob/edit", "agents"):
        assert "hush" not in browser.get(f"/admin/{path}").text
        assert "hush" not in script.get(f"/admin/{path}").text


def test_draft_is_checked_without_saving(script):
    def said(path, yaml):
        answer = script.post(f"/admin/{path}/check", json={"yaml": yaml, "at": "x"})
        return [(each["line"], each["message"]) for each in answer.json()["problems"]]

    assert (
        said("agents", BOB) == said("agents/tuned", BOB.replace("bob", "tuned")) == []
    )
    ((line, told),) = said("agents", BOB.replace("openai", "opena"))
    assert (line, told[:34]) == (2, "agent 'bob' uses provider 'opena',")
    assert said("agents/tuned", BOB)[0][0] == 1
    assert "not valid YAML" in said("agents", "name: [")[0][1]
    # What it does to others is told by where they stand.
    unscored = "name: team\nprovider: openai\nmodel: m\n"
    ((line, told),) = said("agents/team", unscored)
    assert line is None
    assert "coulisse.yaml:" in told
    assert "experiment 'best' uses metric 'quality.clear', but its variant" in told
    assert not OverrideVersion.objects.exists()


# What browsers do.


def test_browser_creates_edits_disables_and_resets(browser, script):
    page = browser.submit("/admin/agents", {"yaml": BOB}, of="/admin/agents/new")
    assert page.url.path == "/admin/agents/bob"
    assert "Agent &#x27;bob&#x27; created" in page.text
    changed = {"_method": "PUT", "yaml": BOB.replace("gpt-x", "gpt-y"), "version": ""}
    page = browser.submit("/admin/agents/bob", changed, of="/admin/agents/bob/edit")
    assert "Agent &#x27;bob&#x27; saved" in page.text
    assert "model: gpt-y # the new one" in page.text
    page = browser.submit("/admin/agents/bob", {"_method": "DELETE"})
    assert page.url.path == "/admin/agents"
    assert "Agent &#x27;bob&#x27; deleted" in page.text
    page = browser.submit("/admin/agents/assistant", {"_method": "DELETE"})
    assert "Disabled, so clients cannot use it" in page.text
    page = browser.submit(
        "/admin/agents/assistant/reset", {}, of="/admin/agents/assistant"
    )
    assert labels(script)["assistant"] == "yaml"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.path)
def test_new_entry_template_is_valid(script, kind):
    text = script.get(f"/admin/{kind.path}/new").json()["yaml"]
    checked = script.post(f"/admin/{kind.path}/check", json={"yaml": text})
    assert checked.json() == {"problems": []}
    assert post(script, kind.path, text).status_code == 201


def test_new_agent_template_prefers_a_large_model(script, configure):
    small = "agents:\n  - {name: small, provider: local, model: any}\n"
    text = CONFIG.replace("agents:\n", small)
    configure(text.replace("providers:\n", "providers:\n  local: {}\n"))
    for path in ("agents", "judges", "smoke"):
        text = script.get(f"/admin/{path}/new").json()["yaml"]
        assert "provider: openai" in text
        assert "provider: local" not in text


def test_refused_form_keeps_its_input(browser, script):
    typed = {"_method": "PUT", "yaml": "name: tuned\nprovider: opena\nmodel: mine\n"}
    page = browser.submit(
        "/admin/agents/tuned", {**typed, "version": "0"}, of="/admin/agents/tuned/edit"
    )
    assert page.status_code == 422
    assert "provider: opena\nmodel: mine\n</textarea>" in page.text
    assert 'data-line="2"' in page.text
    assert '<input type="hidden" name="version" value="0">' in page.text
    page = browser.submit(
        "/admin/agents", {"yaml": "name: tuned"}, of="/admin/agents/new"
    )
    assert page.status_code == 409
    assert (
        "name: tuned\n</textarea>" in page.text or "name: tuned</textarea>" in page.text
    )
    assert "<h1>New agent" in page.text


def test_second_of_two_editors_gets_a_conflict(browser, script):
    put(script, "agents/tuned", BOB.replace("bob", "tuned"))
    typed = {"_method": "PUT", "yaml": BOB.replace("bob", "tuned"), "version": "0"}
    page = browser.submit("/admin/agents/tuned", typed, of="/admin/agents/tuned/edit")
    assert page.status_code == 409
    assert "was changed by studio: local since you opened it" in page.text


def test_conflict_page_shows_current_version_and_can_overwrite(browser, script):
    theirs = BOB.replace("bob", "tuned")
    put(script, "agents/tuned", theirs)
    yours = theirs.replace("gpt-x", "gpt-y")
    typed = {"_method": "PUT", "yaml": yours}
    edit = "/admin/agents/tuned/edit"
    page = browser.submit("/admin/agents/tuned", {**typed, "version": "0"}, of=edit)
    assert page.status_code == 409
    assert f"{yours}</textarea>" in page.text
    assert '<a href="/admin/agents/tuned" target="_blank">View the current version' in (
        page.text
    )
    assert '<span class="del">-model: gpt-x # the new one</span>' in page.text
    assert '<span class="add">+model: gpt-y # the new one</span>' in page.text
    now = script.get("/admin/agents/tuned").json()["version"]
    assert f'<input type="hidden" name="version" value="{now}">' in page.text
    again = {**typed, "version": str(now)}
    page = browser.submit("/admin/agents/tuned", again, of=edit)
    assert page.status_code == 200
    assert script.get("/admin/agents/tuned").json()["yaml"] == yours


def test_conflict_page_reports_disabled_or_deleted_entry(browser, script):
    script.delete("/admin/experiments/trial")
    yours = NEW["experiments"].replace("bob", "trial")
    typed = {"_method": "PUT", "yaml": yours, "version": "0"}
    edit = "/admin/agents/tuned/edit"
    page = browser.submit("/admin/experiments/trial", typed, of=edit)
    assert page.status_code == 409
    assert "was disabled by studio: local since you opened it" in page.text
    assert "It is disabled, and saving enables it." in page.text

    version = post(script, "agents", BOB).json()["version"]
    script.delete("/admin/agents/bob")
    typed = {"_method": "PUT", "yaml": BOB, "version": str(version)}
    page = browser.submit("/admin/agents/bob", typed, of=edit)
    assert page.status_code == 409
    assert "was deleted by studio: local since you opened it" in page.text
    assert "<h1>New agent" in page.text
    assert f"{BOB}</textarea>" in page.text


def test_history_version_can_be_edited(browser, script):
    post(script, "agents", BOB)
    put(script, "agents/bob", BOB.replace("gpt-x", "gpt-y"))
    first = script.get("/admin/agents/bob").json()["history"][-1]["id"]
    page = browser.get(f"/admin/agents/bob/edit?from={first}")
    assert "model: gpt-x # the new one" in page.text
    assert "model: gpt-y" in browser.get("/admin/agents/new?like=bob").text


@pytest.mark.parametrize("name", ["tuned", "bob"])
def test_unchanged_save_writes_nothing(browser, script, name):
    post(script, "agents", BOB)
    wants_yaml = {"Accept": "application/yaml"}
    text = script.get(f"/admin/agents/{name}", headers=wants_yaml).text
    before = script.get(f"/admin/agents/{name}").json()
    typed = text.removesuffix("\n").replace("\n", "\r\n")
    fields = {"_method": "PUT", "yaml": typed, "version": str(before["version"])}
    page = browser.submit(f"/admin/agents/{name}", fields, of="/admin/agents/bob/edit")
    assert f"Agent &#x27;{name}&#x27; is unchanged" in page.text
    assert put(script, f"agents/{name}", text).json() == before
    assert labels(script)[name] == before["label"]


def test_saving_the_file_value_enables_the_entry_again(script):
    wants_yaml = {"Accept": "application/yaml"}
    text = script.get("/admin/smoke/greeting", headers=wants_yaml).text
    script.delete("/admin/smoke/greeting")
    put(script, "smoke/greeting", text)
    assert labels(script, "smoke") == {"greeting": "override"}


def test_long_history_is_paginated(browser, script):
    post(script, "agents", BOB)
    for _ in range(22):
        OverrideVersion.objects.create(
            section="agents", name="bob", action="saved", at=datetime.now(UTC), by="x"
        )
    first = script.get("/admin/agents/bob").json()
    assert (len(first["history"]), first["has_more"]) == (20, True)
    oldest = first["history"][-1]["id"]
    rest = script.get(f"/admin/agents/bob?before={oldest}").json()
    assert (len(rest["history"]), rest["has_more"]) == (3, False)
    assert f"?before={oldest}#configuration" in browser.get("/admin/agents/bob").text
    assert script.get("/admin/agents/bob?before=x").status_code == 400


def test_rejected_override_shows_its_reason(browser, script, configure):
    text = "name: bob\nprovider: anthropic\nmodel: m\n"
    post(script, "agents", text)
    smaller = FULL.replace("  anthropic:\n", "  other:\n    kind: anthropic\n")
    configure(smaller.replace("provider: anthropic", "provider: other"))
    live.apply_overrides()
    entry = script.get("/admin/agents/bob").json()
    assert (entry["is_rejected"], entry["is_active"]) == (True, False)
    assert "uses provider 'anthropic', which is not" in entry["reason"]
    page = browser.get("/admin/agents/bob").text
    assert "so this entry is not in effect" in page
    assert ">rejected<" in browser.get("/admin/agents").text


def test_empty_list_links_to_the_first_entry(browser, configure):
    configure(CONFIG)
    assert "Create the first judge" in browser.get("/admin/judges").text
    assert 'href="/admin/judges/new"' in browser.get("/admin/judges").text


# Who may, and what is noted.


def test_viewers_are_read_only(viewer, operator, configure):
    assert viewer.get("/admin/agents").status_code == 200
    assert viewer.get("/admin/agents/tuned").status_code == 200
    assert post(viewer, "agents", BOB).status_code == 403
    assert put(viewer, "agents/tuned", BOB).status_code == 403
    assert viewer.delete("/admin/agents/tuned").status_code == 403
    assert viewer.post("/admin/agents/tuned/reset").status_code == 403
    page = viewer.get("/admin/agents/tuned", headers={"Accept": "text/html"}).text
    assert "tuned/edit" not in page
    empty = viewer.get("/admin/judges", headers={"Accept": "text/html"}).text
    assert "Operators can create them." in empty
    assert "/admin/judges/new" not in empty
    assert not OverrideVersion.objects.exists()


def test_changes_are_audited_without_text(script):
    AuditEntry.objects.all().delete()
    post(script, "judges", NEW["judges"])
    put(script, "judges/bob", NEW["judges"])  # as it is
    put(script, "judges/bob", NEW["judges"].replace("model: j", "model: k"))
    script.delete("/admin/judges/bob")
    put(script, "smoke/greeting", NEW["smoke"].replace("bob", "greeting"))
    script.delete("/admin/smoke/greeting")
    script.delete("/admin/smoke/greeting")  # as it is
    script.post("/admin/smoke/greeting/reset")
    script.delete("/admin/smoke/nothing")
    told = list(AuditEntry.objects.order_by("id"))
    assert [(entry.action, entry.target) for entry in told] == [
        *(("judge.create", "bob"), ("judge.save", "bob"), ("judge.delete", "bob")),
        ("smoke_test.save", "greeting"),
        *(("smoke_test.disable", "greeting"), ("smoke_test.reset", "greeting")),
    ]
    assert {entry.actor for entry in told} == {"studio: local"}
    assert "rubrics" not in str([entry.details for entry in told])


# What agents' pages show.


def test_agent_references_are_listed(server):
    found = agent_references.find_references(live.current(), "tuned")
    assert [tuple(each) for each in found] == [
        ("agent", "team", "calls it"),
        ("experiment", "trial", "a variant"),
        ("smoke test", "greeting", "tests it"),
    ]
    assert (
        agent_references.find_references(live.current(), "forgetful")[0].relation
        == "falls back to it"
    )


def test_agent_page_shows_last_24_hours(script, client, fake):
    fake.reply("hello")
    client.chat.completions.create(
        model="team", user="u", messages=[{"role": "user", "content": "hi"}]
    )
    day = script.get("/admin/agents/team").json()["details"]["last_day"]
    assert (day["turns"] >= 1, day["failed"]) == (True, 0)
    listed = {e["name"]: e for e in script.get("/admin/agents").json()["data"]}
    assert listed["team"]["overview"]["last_day"] == day


def queries(function):
    with CaptureQueriesContext(
        connection,
    ) as captured:
        function()
    return len(captured)


def test_query_count_is_independent_of_amount(script):
    few = (
        queries(agent_details.load_overview),
        queries(lambda: agent_details.load_details("tuned", None)),
    )
    for number in range(3):
        post(script, "agents", BOB.replace("bob", f"bob-{number}"))
    assert (
        queries(agent_details.load_overview),
        queries(lambda: agent_details.load_details("tuned", None)),
    ) == few
    assert few == (1, 1)
