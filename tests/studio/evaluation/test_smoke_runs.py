"""Runs of smoke tests: launch, watch, cancel and compare."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.models import AuditEntry
from admin_base.serializers import page_schema
from config import live
from smoke.config import SMOKE_TESTS
from smoke.models import SmokeRun
from smoke.schemas import SmokeBatch, SmokeRunDetail
from studio.evaluation import smoke_details
from tests.judges.sample_judges import answer
from tests.smoke.conftest import RunWorker, models, worker  # noqa: F401  fixtures
from tests.smoke.scripted_models import with_test
from tests.studio.openapi.schema_assertions import assert_fits
from tests.tasks.conftest import wait_until

pytestmark = pytest.mark.database

PAGE = {"Accept": "text/html"}


@pytest.fixture(autouse=True)
def _no_runs(database):
    yield
    SmokeRun.objects.all().delete()


def launch(script, name="plums", **body):
    response = script.post(f"/admin/smoke/{name}/runs", json=body)
    assert response.status_code == 202, response.text
    return response


def first_run(response):
    """Return the first run of a launch."""
    return SmokeRun.objects.get(pk=response.json()["runs"][0]["id"])


def test_script_starts_a_test_and_reads_its_transcript(script, models, worker):  # noqa: F811
    models.persona = ["Plums?", "Thanks [FIN]"]
    response = launch(script, repetitions=2)
    batch = response.json()
    assert response.headers["Location"] == f"/admin/smoke/runs/{batch['runs'][0]['id']}"
    assert (batch["origin"], batch["open"], len(batch["runs"])) == ("studio", 2, 2)
    entry = AuditEntry.objects.filter(action="smoke_test.run").latest("at")
    assert (entry.target, entry.details) == ("plums", {"repetitions": 2})
    first = first_run(response)
    # Only one run at a time, because both would take replies from the same script.
    worker.accept(first)
    worker.wait_until_closed(first)
    run = script.get(response.headers["Location"]).json()
    assert [line["speaker"] for line in run["transcript"]] == [
        "persona",
        "assistant",
        "persona",
    ]
    assert (run["outcome"], run["stopped_because"]) == ("passed", "persona_marker")
    assert_fits(SmokeRunDetail, run)
    assert_fits(SmokeBatch, batch)
    since = script.get(f"{response.headers['Location']}?from=2").json()
    assert [line["position"] for line in since["transcript"]] == [2]
    assert {each["repetition"] for each in run["batch_runs"]} == {1, 2}


def test_run_page_stops_reloading_once_judged(script, models, worker):  # noqa: F811
    models.judge = answer(accuracy=4, tone=9)
    run = first_run(launch(script, "judged"))
    address = f"/admin/smoke/runs/{run.pk}"
    assert [each["is_met"] for each in script.get(address).json()["expected"]] == [None]
    worker.accept(run)

    def is_closed():
        worker.check_queue()
        return script.get(address).json()["outcome"] != "open"

    wait_until(is_closed)
    data = script.get(address).json()
    assert data["outcome"] == "failed"
    assert data["expected"] == [
        {"condition": "the mean of quality.accuracy is at least 7", "is_met": False}
    ]
    replies = [line for line in data["transcript"] if line["speaker"] == "assistant"]
    assert [score["value"] for score in replies[0]["scores"]] == [4, 9]
    assert_fits(SmokeRunDetail, data)
    page = script.get(address, headers=PAGE).text
    assert '<span class="badge is-bad">failed</span>' in page
    assert "Because of accuracy." in page


def test_run_and_batch_are_cancelled(script, models):  # noqa: F811
    response = launch(script, repetitions=3)
    first = response.json()["runs"][0]["id"]
    cancelled = script.post(f"/admin/smoke/runs/{first}/cancel").json()
    assert cancelled["state"] == "cancelled"
    assert SmokeRun.objects.filter(state="cancelled").count() == 1
    script.post(f"/admin/smoke/runs/{first}/cancel", json={"batch": True})
    assert SmokeRun.objects.filter(state="cancelled").count() == 3


def test_chosen_runs_are_cancelled(script, browser, models):  # noqa: F811
    runs = launch(script, repetitions=3).json()["runs"]
    ids = [run["id"] for run in runs[:2]]
    place = "/admin/smoke-conversations"
    done = script.post(f"{place}?action=cancel", json={"ids": ids}).json()
    assert [each["is_changed"] for each in done["data"]] == [True, True]
    listed = script.get(f"{place}?test=plums&state=cancelled").json()["data"]
    assert {run["id"] for run in listed} == {*ids}
    page = browser.get(f"{place}?test=plums").text
    assert all(f'href="/admin/smoke/runs/{run["id"]}"' in page for run in runs)


def test_browser_starts_a_test_and_sees_its_state(browser, models):  # noqa: F811
    page = browser.submit("/admin/smoke/plums/runs", {}, form_page="/admin/smoke/plums")
    assert page.status_code == 200
    run = SmokeRun.objects.get()
    assert str(page.url).endswith(f"/admin/smoke/runs/{run.pk}")
    assert '<span class="badge">queued</span>' in page.text
    assert "smoke-run.js" in page.text
    assert f'{run.target} <span class="muted">no reply yet</span>' in page.text
    fragment = browser.get(f"/admin/smoke/runs/{run.pk}?fragment=1").text
    assert "<html" not in fragment
    assert '<span class="badge">queued</span>' in fragment
    cancelled = browser.submit(
        f"/admin/smoke/runs/{run.pk}/cancel",
        {},
        form_page=f"/admin/smoke/runs/{run.pk}",
    )
    assert ">cancelled<" in cancelled.text


def test_two_batches_are_compared(script, models, worker):  # noqa: F811
    for accuracy in (4, 8):
        models.judge = answer(accuracy=accuracy, tone=5)
        run = first_run(launch(script, "judged"))
        worker.accept(run)
        worker.wait_until_closed(run)
    data = script.get("/admin/smoke/judged").json()["details"]
    by = {each["measure"]: each for each in data["compared"]}
    assert by["quality.accuracy"] == {
        "measure": "quality.accuracy",
        "unit": "score",
        "now": 8.0,
        "before": 4.0,
        "change": 4.0,
        "is_better": True,
    }
    assert (by["passed"]["before"], by["passed"]["now"]) == (0.0, 1.0)
    assert by["quality.tone"]["is_better"] is None
    assert [batch["passed"] for batch in data["batches"]] == [1, 0]
    run = script.get(f"/admin/smoke/runs/{run.pk}").json()
    assert_fits(SmokeRunDetail, run)
    assert run["compared"] == data["compared"]


def test_runs_are_paginated(script, browser, models):  # noqa: F811
    ids = [launch(script).json()["id"] for _ in range(5)]
    # Of one instant, as if several had launched at once.
    at = SmokeRun.objects.latest("created_at").created_at
    SmokeRun.objects.filter(batch__in=ids[2:]).update(created_at=at)
    for address in ("/admin/smoke/plums/runs", "/admin/smoke/runs"):
        found, after = [], ""
        for _ in range(9):
            page = script.get(address, params={"after": after, "limit": 2}).json()
            assert_fits(page_schema(SmokeBatch), page)
            found += [batch["id"] for batch in page["data"]]
            if not page["has_more"]:
                break
            after = page["last_id"]
        assert (set(found[:3]), found[3:]) == ({*ids[2:]}, [ids[1], ids[0]])
        assert browser.http.get(address, follow_redirects=True).status_code == 200


def test_list_query_count_is_independent_of_runs(script, configure, models):  # noqa: F811
    configure(with_test("schedule: '0 6 * * *'"))
    counts = []
    for repetitions in (1, 9):
        for test in live.current().get(SMOKE_TESTS).values():
            SmokeRun.objects.launch(test, origin="command", repetitions=repetitions)
        with CaptureQueriesContext(connection) as queries:
            data = smoke_details.load_overview()
        counts.append(len(queries))
        assert data["mine"]["next_at"].hour == 6
        assert len(data["mine"]["last"]["runs"]) == repetitions
        assert data["plums"]["next_at"] is None
    assert counts == [2, 2]


def test_invalid_requests_are_reported(script):
    data = script.post("/admin/smoke/plum/runs").json()["error"]
    assert "there is no smoke test 'plum'" in data["message"]
    assert script.get("/admin/smoke/runs/00000000").status_code == 404
    assert script.get("/admin/smoke/plum/runs").status_code == 404
    assert script.get("/admin/smoke/runs?after=x").status_code == 400


def test_viewers_are_read_only(viewer):
    assert viewer.get("/admin/smoke/runs").status_code == 200
    assert viewer.post("/admin/smoke/plums/runs").status_code == 403
