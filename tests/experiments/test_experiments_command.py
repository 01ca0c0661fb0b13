"""`coulisse experiments`, and the log line about a winner."""

import json
import logging
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config.loading import loader
from experiments import tasks
from judges.models import Score
from judges.scoring.verdict_parser import JudgeResult
from tests.telemetry.sample_turns import store_turn

pytestmark = pytest.mark.database

TEXT = """
providers: {openai: {api_key: sk-secret}}
agents:
  - {name: calm, provider: openai, model: m, judges: [quality]}
  - {name: keen, provider: openai, model: m, judges: [quality]}
judges:
  - {name: quality, provider: openai, model: j, rubrics: {tone: T., facts: F.}}
experiments:
  - name: SPLIT
    strategy: split
    stop_when: {metric: quality.tone, min_samples: 5}
    variants: [{agent: calm, weight: 3}, {agent: keen}]
  - name: SHADOW
    strategy: shadow
    primary: calm
    sampling_rate: 0.5
    variants: [{agent: calm}, {agent: keen}]
  - name: BANDIT
    strategy: bandit
    metric: quality.facts
    min_samples: 3
    variants: [{agent: calm}, {agent: keen}]
"""


@pytest.fixture
def experiment_names(database) -> dict[str, str]:
    """Unique names of experiments, by strategy."""
    return {
        kind: f"{kind}-{uuid.uuid4().hex[:8]}" for kind in ("split", "shadow", "bandit")
    }


@pytest.fixture
def config(experiment_names, tmp_path):
    text = TEXT
    for kind, name in experiment_names.items():
        text = text.replace(kind.upper(), name)
    path = tmp_path / "coulisse.yaml"
    path.write_text(text)
    return path


@pytest.fixture
def run(config, capsys):
    def run(*columns: str) -> str:
        call_command("experiments", *columns, config=str(config))
        return capsys.readouterr().out

    return run


def store_scores(experiment: str, agent: str, *values: int, criterion="tone") -> None:
    for value in values:
        Score.objects.store(
            {criterion: JudgeResult(value, "")},
            turn_id=uuid.uuid4(),
            user_id=uuid.uuid4(),
            judge="quality",
            agent=agent,
            experiment=experiment,
        )


def store_turns(experiment: str, agent: str, count: int, origin="chat") -> None:
    for _ in range(count):
        store_turn(agent=agent, experiment=experiment, origin=origin, started_at=now())


def now() -> datetime:
    return datetime.now(UTC)


def columns(line: str) -> list[str]:
    return [part for part in line.split("  ") if part]


def test_split_shows_traffic_scores_and_winner(run, experiment_names):
    name = experiment_names["split"]
    store_turns(name, "calm", 3)
    store_turns(name, "keen", 1)
    store_scores(name, "calm", 3, 4, 3, 4, 3)
    store_scores(name, "keen", 8, 9, 8, 9, 8)
    store_scores("elsewhere", "calm", *[10] * 50)
    output = run(name).splitlines()
    assert output[0] == f"{name}: split, sticky by user"
    assert [part.strip() for part in columns(output[2])] == [
        "calm",
        "75 %",
        "3",
        "75 %",
        "0",
    ]
    assert "quality.tone (deciding metric)" in output
    at = output.index("quality.tone (deciding metric)")
    assert [part.strip() for part in columns(output[at + 2])] == [
        "calm",
        "5",
        "3.40",
        "2.72 to 4.08",
        "under 0.1 %",
    ]
    assert output[-1] == "Winner: keen, best with a probability of over 99.9 %"


def test_too_few_scores_give_no_winner(run, experiment_names):
    name = experiment_names["split"]
    assert run(name).splitlines()[-1] == "Too few scores for calm, keen"
    store_scores(name, "calm", 3, 4, 3, 4)
    store_scores(name, "keen", 8, 9, 8, 9, 8)
    assert run(name).splitlines()[-1] == (
        "No winner yet. Leader: keen, best with a probability of over 99.9 %; "
        "each variant needs 5 scores, calm has 4"
    )
    store_scores(name, "calm", 10, 10, 10, 10)
    assert run(name).splitlines()[-1].endswith("; a winner needs 95.0 %")


def test_shadow_shows_its_shadow_runs(run, experiment_names):
    name = experiment_names["shadow"]
    store_turns(name, "calm", 4)
    store_turns(name, "keen", 2, origin="shadow")
    output = run(name).splitlines()
    assert "primary" in output[2]
    assert [part.strip() for part in columns(output[3])] == [
        "keen",
        "0 %",
        "0",
        "0 %",
        "2",
        "shadow of 50 % of turns",
    ]
    assert output[-1].startswith("Several metrics")


def test_bandit_shows_leader_and_explored_variants(run, experiment_names):
    name = experiment_names["bandit"]
    store_scores(name, "calm", 5, 6, 7, criterion="facts")
    store_scores(name, "keen", 9, 9, criterion="facts")
    output = run(name)
    assert "since " in output.splitlines()[0]
    assert "keen" in output
    assert "undersampled: fewer than 3 recent scores" in output
    assert "leader" not in output
    store_scores(name, "keen", 9, criterion="facts")
    assert [line.split()[0] for line in run(name).splitlines() if "leader" in line] == [
        "keen"
    ]
    old = now() - timedelta(days=8)
    Score.objects.filter(experiment=name, agent="keen").update(judged_at=old)
    assert "leader" not in run(name)


def test_since_option_limits_the_counts(run, experiment_names):
    name = experiment_names["split"]
    store_scores(name, "calm", 3, 4)
    old = now() - timedelta(days=8)
    Score.objects.filter(experiment=name).update(judged_at=old)
    store_scores(name, "calm", 5)
    [metric, _] = json.loads(run(name, "--since", "7d", "--json"))["metrics"]
    assert metric["estimates"][0]["count"] == 1


def test_json_equals_the_text_output(run, experiment_names):
    name = experiment_names["split"]
    store_turns(name, "calm", 1)
    store_scores(name, "calm", 3, 4, 3, 4, 3)
    store_scores(name, "keen", 8, 9, 8, 9, 8)
    output = json.loads(run(name, "--json"))
    assert (output["winner"], output["deciding"]) == ("keen", "quality.tone")
    assert output["variants"][0] == {
        "agent": "calm",
        "weight": 3.0,
        "share": 0.75,
        "turns": 1,
        "share_of_turns": 1.0,
        "shadow_runs": 0,
        "is_primary": False,
        "is_leader": False,
        "is_undersampled": False,
    }
    assert output["metrics"][0]["estimates"][1]["best"] > 0.99
    listed = json.loads(run("--json"))
    assert [each["name"] for each in listed["data"]] == list(experiment_names.values())


def test_all_experiments_are_listed(run, experiment_names):
    head, *rows = run().splitlines()
    assert head.split() == [
        "experiment",
        "strategy",
        "variants",
        "turns",
        "metric",
        "result",
    ]
    assert [row.split()[0] for row in rows] == list(experiment_names.values())


def test_unknown_experiment_is_refused(run):
    with pytest.raises(CommandError, match="experiment 'x' is not under experiments:"):
        run("x")


def test_experiment_takes_three_queries(run, experiment_names):
    with CaptureQueriesContext(connection) as queries:
        run(experiment_names["split"])
    # One for the traffic, and one for each criterion.
    assert len(queries) == 3


def test_winner_is_logged_once(config, experiment_names, caplog):
    read = loader.load_file(config)
    caplog.set_level(logging.INFO, "experiments.tasks")
    assert tasks.log_winners(read) == []
    store_scores(experiment_names["split"], "calm", 3, 4, 3, 4, 3)
    store_scores(experiment_names["split"], "keen", 8, 9, 8, 9, 8)
    assert tasks.log_winners(read) == [
        f"{experiment_names['split']}: "
        "Winner: keen, best with a probability of over 99.9 %"
    ]
    assert tasks.log_winners(read) == []
    [line] = [
        r.getMessage()
        for r in caplog.records
        if experiment_names["split"] in r.getMessage()
    ]
    assert "by quality.tone: keen, best with a probability of over 99.9 %" in line
