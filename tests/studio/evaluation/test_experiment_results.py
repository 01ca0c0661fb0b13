"""Results of experiments: traffic, means, the bandit's choice, the winner."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config import live
from core.ids import new_turn_id
from experiments.config import EXPERIMENTS
from experiments.schemas import ExperimentResults
from judges.models import Score
from studio.evaluation import experiment_results
from studio.templatetags import evaluation
from telemetry.models import Turn
from tests.conftest import CONFIG
from tests.studio.openapi.schema_assertions import assert_fits

pytestmark = pytest.mark.database

PAGE = {"Accept": "text/html"}
NOW = datetime.now(UTC)


class ExperimentData:
    """Experiments with unique names, and rows of their turns and scores."""

    def __init__(self, configure) -> None:
        self.tag = uuid.uuid4().hex[:8]
        self.judge = f"judge-{self.tag}"
        configure(
            CONFIG
            + f"""
  - {{name: warm, provider: openai, model: gpt-test, judges: [{self.judge}]}}
  - {{name: cool, provider: openai, model: gpt-test, judges: [{self.judge}]}}
judges:
  - name: {self.judge}
    provider: openai
    model: j
    rubrics: {{tone: Tone., wit: Wit.}}
experiments:
  - name: split-{self.tag}
    strategy: split
    variants: [{{agent: warm, weight: 3}}, {{agent: cool}}]
    stop_when: {{metric: {self.judge}.tone, min_samples: 4}}
  - name: shadow-{self.tag}
    strategy: shadow
    primary: warm
    sampling_rate: 0.2
    variants: [{{agent: warm}}, {{agent: cool}}]
  - name: bandit-{self.tag}
    strategy: bandit
    metric: {self.judge}.tone
    min_samples: 2
    epsilon: 0.2
    variants: [{{agent: warm}}, {{agent: cool}}]
  - name: blind-{self.tag}
    strategy: split
    variants: [{{agent: warm}}, {{agent: claude}}]
"""
        )

    def path(self, strategy: str) -> str:
        return f"/admin/experiments/{self.name(strategy)}"

    def name(self, strategy: str) -> str:
        return f"{strategy}-{self.tag}"

    def serve(self, strategy, agent, count=1, *, days=0.0, origin="chat"):
        at = NOW - timedelta(days=days)
        for _ in range(count):
            Turn.objects.create(
                id=new_turn_id(),
                user_id=uuid.uuid4(),
                agent=agent,
                experiment=self.name(strategy),
                origin=origin,
                started_at=at,
                outcome="ok",
                **NOTHING,
            )

    def score(self, strategy, agent, *values, criterion="tone", days=0.0):
        for value in values:
            Score.objects.create(
                turn_id=new_turn_id(),
                user_id=uuid.uuid4(),
                judge=self.judge,
                criterion=criterion,
                value=value,
                agent=agent,
                experiment=self.name(strategy),
                judged_at=NOW - timedelta(days=days),
            )


NOTHING = {
    "seconds": 1.0,
    "is_streamed": False,
    "input_tokens": 1,
    "output_tokens": 1,
    "cache_read_tokens": 0,
    "cache_write_tokens": 0,
    "reasoning_tokens": 0,
    "model_calls": 1,
    "tool_calls": 0,
}


@pytest.fixture
def experiments(server, configure):
    return ExperimentData(configure)


def results(script, experiments, strategy, **query):
    address = f"/admin/experiments/{experiments.name(strategy)}/results"
    response = script.get(address, params=query)
    assert response.status_code == 200, response.text
    assert_fits(ExperimentResults, response.json())
    return response.json()


def test_split_shows_shares_traffic_and_winner(script, experiments):
    experiments.serve("split", "warm", 3)
    experiments.serve("split", "cool", 1)
    experiments.score("split", "warm", 9, 9, 8, 9)
    experiments.score("split", "cool", 3, 4, 3)
    data = results(script, experiments, "split")
    assert [(each["share"], each["share_of_turns"]) for each in data["variants"]] == [
        (0.75, 0.75),
        (0.25, 0.25),
    ]
    assert data["winner"] is None
    assert "each variant needs 4 scores, cool has 3" in data["result"]
    experiments.score("split", "cool", 4)
    data = results(script, experiments, "split")
    assert data["winner"] == "warm"
    assert data["deciding"] == f"{experiments.judge}.tone"
    (tone, wit) = data["metrics"]
    warm, cool = tone["estimates"]
    assert warm["low"] < warm["mean"] == 8.75 < warm["high"]
    assert warm["best"] + cool["best"] == pytest.approx(1)
    assert [each["count"] for each in wit["estimates"]] == [0, 0]
    page = script.get(experiments.path("split"), headers=PAGE).text
    assert "Winner: warm, best" in page
    assert data == script.get(experiments.path("split")).json()["details"]["results"]


def test_results_since_limits_the_turns(script, experiments):
    experiments.serve("split", "warm", 2, days=9)
    experiments.serve("split", "warm", 1)
    data = results(script, experiments, "split", since="7d")
    assert data["variants"][0]["turns"] == 1
    assert results(script, experiments, "split")["variants"][0]["turns"] == 3
    address = f"/admin/experiments/{experiments.name('split')}/results"
    assert script.get(address, params={"since": "yore"}).status_code == 400
    assert "Actual share" in script.get(f"{address}?since=7d", headers=PAGE).text
    assert script.get("/admin/experiments/nobody/results").status_code == 404


def test_shadow_run_lists_primary_and_traffic(script, experiments):
    experiments.serve("shadow", "warm", 2)
    experiments.serve("shadow", "cool", 1, origin="shadow")
    data = results(script, experiments, "shadow")
    assert (data["primary"], data["sampling_rate"]) == ("warm", 0.2)
    warm, cool = data["variants"]
    assert (warm["is_primary"], warm["share"], warm["turns"]) == (True, 1.0, 2)
    assert (cool["share"], cool["turns"], cool["shadow_runs"]) == (0.0, 0, 1)
    page = script.get(experiments.path("shadow"), headers=PAGE).text
    assert ">primary<" in page
    assert "also run on 20 % of the turns" in page


def test_bandit_shows_its_next_choice(script, experiments):
    address = experiments.path("bandit")
    experiments.score("bandit", "warm", 6, 7)
    experiments.score("bandit", "cool", 9)
    experiments.score("bandit", "cool", 9, days=30)
    data = results(script, experiments, "bandit")
    assert data["bandit"]["undersampled"] == ["cool"]
    assert [each["share"] for each in data["variants"]] == [0.0, 1.0]
    assert "Exploring: cool receives all" in script.get(address, headers=PAGE).text
    experiments.score("bandit", "cool", 9)
    data = results(script, experiments, "bandit")
    assert (data["bandit"]["leader"], data["bandit"]["undersampled"]) == ("cool", [])
    assert [each["share"] for each in data["variants"]] == [
        pytest.approx(0.1),
        pytest.approx(0.9),
    ]
    assert data["bandit"]["variants"][1] == {"agent": "cool", "count": 2, "mean": 9.0}
    page = script.get(address, headers=PAGE).text
    assert "<strong>cool</strong> leads" in page
    assert "in the last 7 days" in page


def test_experiment_without_scores_says_so(script, experiments):
    data = results(script, experiments, "blind")
    assert data["metrics"] == []
    page = script.get(experiments.path("blind"), headers=PAGE).text
    assert page.count("No judge scores all variants") == 1


def test_experiment_page_links_to_the_playground(script, experiments):
    name = experiments.name("split")
    page = script.get(f"/admin/experiments/{name}", headers=PAGE).text
    assert f'href="/admin/playground?agent={name}">Chat<' in page


def test_list_shows_the_winner(script, experiments):
    experiments.score("split", "warm", 9, 9, 8, 9)
    experiments.score("split", "cool", 3, 4, 3)
    experiments.score("split", "cool", 4, criterion="wit")
    experiments.score("shadow", "cool", 4)
    name = experiments.name("split")

    def winners():
        data = script.get("/admin/experiments").json()["data"]
        return {each["name"]: each["overview"]["winner"] for each in data}

    assert winners()[name] is None
    experiments.score("split", "cool", 4)
    assert winners()[name] == results(script, experiments, "split")["winner"] == "warm"
    assert [name for name, winner in winners().items() if winner] == [name]
    page = script.get("/admin/experiments", headers=PAGE).text
    assert page.count(">winner<") == 1


def test_list_takes_two_queries(script, experiments):
    counts = []
    experiments.serve("shadow", "cool", origin="shadow")
    for number in (1, 5):
        experiments.serve("split", "cool", number)
        experiments.serve("bandit", "warm", number)
        with CaptureQueriesContext(connection) as queries:
            data = experiment_results.load_overview()
        counts.append(len(queries))
    assert counts == [2, 2]
    assert data[experiments.name("split")]["turns"] == 6
    assert data[experiments.name("blind")]["turns"] == 0
    assert data[experiments.name("shadow")]["turns"] == 0
    page = script.get("/admin/experiments", headers=PAGE).text
    assert experiments.name("split") in page


def test_results_query_count_is_independent_of_turns(experiments):
    experiment = live.current().get(EXPERIMENTS)[experiments.name("bandit")]
    counts = []
    for number in (1, 6):
        experiments.serve("bandit", "warm", number)
        experiments.score("bandit", "warm", *range(number))
        with CaptureQueriesContext(connection) as queries:
            experiment_results.load_results(experiment)
        counts.append(len(queries))
    assert counts == [4, 4]


def test_intervals_share_a_scale():
    found = evaluation.scale_intervals(
        {
            "estimates": [
                {"agent": "a", "low": 4.0, "mean": 5.0, "high": 6.0},
                {"agent": "b", "low": 6.0, "mean": 7.0, "high": 8.0},
                {"agent": "c", "low": None, "mean": 3.0, "high": None},
            ]
        }
    )
    assert (found["low"], found["high"]) == (4.0, 8.0)
    first, second, third = found["rows"]
    assert (first["low_at"], first["at"], first["high_at"]) == (
        "0.0000",
        "0.2500",
        "0.5000",
    )
    assert second["high_at"] == "1.0000"
    assert third["at"] is None
    narrow = {"low": 5.0, "mean": 5.1, "high": 5.2, "agent": "a"}
    found = evaluation.scale_intervals({"estimates": [narrow]})
    assert found["high"] - found["low"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(604_800, "7 days"), (86_400, "1 day"), (5_400, "90 minutes"), (61, "61 seconds")],
)
def test_time_spans_use_whole_units(seconds, text):
    assert evaluation.time_span(seconds) == text
