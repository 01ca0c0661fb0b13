"""Experiments in the studio: traffic, means, who would be chosen, who has won."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config import live
from core.ids import new_turn_id
from experiments.config import EXPERIMENTS
from judges.models import Score
from studio.evaluation import experiment_results
from studio.templatetags import evaluation
from telemetry.models import Turn
from tests.conftest import CONFIG
from tests.studio.fitting import assert_fits

pytestmark = pytest.mark.database

PAGE = {"Accept": "text/html"}
NOW = datetime.now(UTC)


class Trials:
    """Experiments of names nobody else has, and what came of them."""

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
def trials(server, configure):
    return Trials(configure)


def results(script, trials, strategy, **query):
    address = f"/admin/experiments/{trials.name(strategy)}/results"
    told = script.get(address, params=query)
    assert told.status_code == 200, told.text
    assert_fits(experiment_results.ExperimentResults, told.json())
    return told.json()


def test_split_shows_shares_traffic_and_winner(script, trials):
    trials.serve("split", "warm", 3)
    trials.serve("split", "cool", 1)
    trials.score("split", "warm", 9, 9, 8, 9)
    trials.score("split", "cool", 3, 4, 3)
    told = results(script, trials, "split")
    assert [(each["share"], each["share_of_turns"]) for each in told["variants"]] == [
        *((0.75, 0.75), (0.25, 0.25)),
    ]
    assert told["winner"] is None
    assert "each variant needs 4 scores, cool has 3" in told["result"]
    trials.score("split", "cool", 4)
    told = results(script, trials, "split")
    assert told["winner"] == "warm"
    assert told["deciding"] == f"{trials.judge}.tone"
    (tone, wit) = told["metrics"]
    warm, cool = tone["estimates"]
    assert warm["low"] < warm["mean"] == 8.75 < warm["high"]
    assert warm["best"] + cool["best"] == pytest.approx(1)
    assert [each["count"] for each in wit["estimates"]] == [0, 0]
    page = script.get(f"/admin/experiments/{trials.name('split')}", headers=PAGE).text
    assert "Winner: warm, best" in page
    assert (
        told
        == script.get(f"/admin/experiments/{trials.name('split')}").json()["details"][
            "results"
        ]
    )


def test_results_since_limits_the_turns(script, trials):
    trials.serve("split", "warm", 2, days=9)
    trials.serve("split", "warm", 1)
    told = results(script, trials, "split", since="7d")
    assert told["variants"][0]["turns"] == 1
    assert results(script, trials, "split")["variants"][0]["turns"] == 3
    address = f"/admin/experiments/{trials.name('split')}/results"
    assert script.get(address, params={"since": "yore"}).status_code == 400
    assert "Actual share" in script.get(f"{address}?since=7d", headers=PAGE).text
    assert script.get("/admin/experiments/nobody/results").status_code == 404


def test_shadow_run_lists_primary_and_traffic(script, trials):
    trials.serve("shadow", "warm", 2)
    trials.serve("shadow", "cool", 1, origin="shadow")
    told = results(script, trials, "shadow")
    assert (told["primary"], told["sampling_rate"]) == ("warm", 0.2)
    warm, cool = told["variants"]
    assert (warm["is_primary"], warm["share"], warm["turns"]) == (True, 1.0, 2)
    assert (cool["share"], cool["turns"], cool["shadow_runs"]) == (0.0, 0, 1)
    page = script.get(f"/admin/experiments/{trials.name('shadow')}", headers=PAGE).text
    assert ">primary<" in page
    assert "also run on 20 % of the turns" in page


def test_bandit_shows_its_next_choice(script, trials):
    address = f"/admin/experiments/{trials.name('bandit')}"
    trials.score("bandit", "warm", 6, 7)
    trials.score("bandit", "cool", 9)
    trials.score("bandit", "cool", 9, days=30)
    told = results(script, trials, "bandit")
    assert told["bandit"]["undersampled"] == ["cool"]
    assert [each["share"] for each in told["variants"]] == [0.0, 1.0]
    assert "Exploring: cool receives all" in script.get(address, headers=PAGE).text
    trials.score("bandit", "cool", 9)
    told = results(script, trials, "bandit")
    assert (told["bandit"]["leader"], told["bandit"]["undersampled"]) == ("cool", [])
    assert [each["share"] for each in told["variants"]] == [
        pytest.approx(0.1),
        pytest.approx(0.9),
    ]
    assert told["bandit"]["variants"][1] == {"agent": "cool", "count": 2, "mean": 9.0}
    page = script.get(address, headers=PAGE).text
    assert "<strong>cool</strong> leads" in page
    assert "in the last 7 days" in page


def test_experiment_without_scores_says_so(script, trials):
    told = results(script, trials, "blind")
    assert told["metrics"] == []
    page = script.get(f"/admin/experiments/{trials.name('blind')}", headers=PAGE).text
    assert page.count("No judge scores all variants") == 1


def test_experiment_page_links_to_the_playground(script, trials):
    name = trials.name("split")
    page = script.get(f"/admin/experiments/{name}", headers=PAGE).text
    assert f'href="/admin/playground?agent={name}">Chat<' in page


def test_list_shows_the_winner(script, trials):
    trials.score("split", "warm", 9, 9, 8, 9)
    trials.score("split", "cool", 3, 4, 3)
    trials.score("split", "cool", 4, criterion="wit")
    trials.score("shadow", "cool", 4)
    name = trials.name("split")

    def told():
        data = script.get("/admin/experiments").json()["data"]
        return {each["name"]: each["overview"]["winner"] for each in data}

    assert told()[name] is None
    trials.score("split", "cool", 4)
    assert told()[name] == results(script, trials, "split")["winner"] == "warm"
    assert [name for name, winner in told().items() if winner] == [name]
    page = script.get("/admin/experiments", headers=PAGE).text
    assert page.count(">winner<") == 1


def test_list_takes_two_queries(script, trials):
    counts = []
    trials.serve("shadow", "cool", origin="shadow")
    for number in (1, 5):
        trials.serve("split", "cool", number)
        trials.serve("bandit", "warm", number)
        with CaptureQueriesContext(connection) as queries:
            told = experiment_results.load_overview()
        counts.append(len(queries))
    assert counts == [2, 2]
    assert told[trials.name("split")]["turns"] == 6
    assert told[trials.name("blind")]["turns"] == 0
    assert told[trials.name("shadow")]["turns"] == 0
    page = script.get("/admin/experiments", headers=PAGE).text
    assert trials.name("split") in page


def test_results_query_count_is_independent_of_turns(trials):
    experiment = live.current().get(EXPERIMENTS)[trials.name("bandit")]
    counts = []
    for number in (1, 6):
        trials.serve("bandit", "warm", number)
        trials.score("bandit", "warm", *range(number))
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
        *("0.0000", "0.2500", "0.5000"),
    )
    assert second["high_at"] == "1.0000"
    assert third["at"] is None
    narrow = {"low": 5.0, "mean": 5.1, "high": 5.2, "agent": "a"}
    found = evaluation.scale_intervals({"estimates": [narrow]})
    assert found["high"] - found["low"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(604_800, "7 days"), (86_400, "1 day"), (5_400, "90 minutes"), (61, "61 seconds")],
)
def test_time_spans_use_whole_units(seconds, told):
    assert evaluation.time_span(seconds) == told
