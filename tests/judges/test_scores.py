"""Storage of scores, and means from an index."""

import statistics
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from core.ids import UserId, new_turn_id
from judges.models import Feedback, Score
from judges.ratings.statistics import ScoreStats
from judges.scoring.verdict_parser import JudgeResult
from tests.memory.user_data.sample_user import AT

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture
def judge() -> str:
    return f"judge-{uuid.uuid4().hex[:8]}"


def store_score(
    judge: str, value: int, *, agent="a", turn_id=None, user_id=None, experiment=""
):
    reply = {
        "turn_id": turn_id or new_turn_id(),
        "user_id": user_id or uuid.uuid4(),
        "judge": judge,
        "agent": agent,
        "experiment": experiment,
    }
    Score.objects.store({"tone": JudgeResult(value, "Because.")}, **reply)
    return reply


def stats_by_agent(judge, criterion, agents, **given):
    scores = Score.objects.filter(judge=judge, criterion=criterion, agent__in=agents)
    return scores.filter_given(**given).stats_by_agent()


def test_means_and_variances_match_the_scores(judge):
    values = [0, 3, 7, 10, 10, 4]
    for value in values:
        store_score(judge, value)
    store_score(judge, 2, agent="b")
    found = stats_by_agent(judge, "tone", ["a", "b", "c"], judged_at__gte=None)
    assert found.keys() == {"a", "b"}
    assert found["a"].mean == pytest.approx(statistics.mean(values))
    assert found["a"].variance == pytest.approx(statistics.variance(values))
    assert found["b"] == ScoreStats(1, 2, 4)
    assert found["b"].variance == 0


def test_stats_without_scores_are_zero():
    assert (ScoreStats(0, 0, 0).mean, ScoreStats(0, 0, 0).variance) == (0.0, 0.0)


def test_stats_are_filtered_by_time_and_experiment(judge):
    store_score(judge, 1)
    store_score(judge, 5, experiment="trial")
    now = datetime.now(UTC)
    assert stats_by_agent(judge, "tone", ["a"])["a"].count == 2
    in_experiment = stats_by_agent(judge, "tone", ["a"], experiment="trial")
    assert in_experiment == {"a": ScoreStats(1, 5, 25)}
    assert (
        stats_by_agent(judge, "tone", ["a"], judged_at__gte=now + timedelta(hours=1))
        == {}
    )
    assert stats_by_agent(judge, "grammar", ["a"]) == {}
    assert stats_by_agent(judge, "tone", []) == {}


@pytest.mark.parametrize("experiment", [None, "trial"])
def test_means_are_one_query_over_a_covering_index(judge, experiment):
    with CaptureQueriesContext(connection) as queries:
        stats_by_agent(
            judge, "tone", ["a", "b"], judged_at__gte=AT, experiment=experiment
        )
    (query,) = queries
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN QUERY PLAN " + query["sql"])
            plan = " ".join(str(row) for row in cursor.fetchall())
        assert "COVERING INDEX judges_score_" in plan


@pytest.mark.parametrize("name", ["agent", "experiment"])
def test_filtered_list_is_read_along_an_index(judge, name):
    scores = Score.objects.filter(**{name: "idle"}).newest_first()
    plan = scores[:50].explain()
    if connection.vendor == "sqlite":
        assert f"({name}=?)" in plan
        assert "TEMP B-TREE" not in plan


def test_repeated_judgement_replaces_the_score(judge):
    first = store_score(judge, 3)
    Score.objects.store({"tone": JudgeResult(9, "On second thought.")}, **first)
    (row,) = Score.objects.of_turns([first["turn_id"]])
    assert (row.value, row.reasoning) == (9, "On second thought.")


def test_scores_of_turns_are_grouped_by_turn_judge_and_criterion(judge):
    turn = new_turn_id()
    store_score(f"{judge}-z", 3, turn_id=turn)
    store_score(f"{judge}-a", 4, turn_id=turn)
    store_score(judge, 5)
    found = [(row.judge, row.value) for row in Score.objects.of_turns([turn])]
    assert found == [(f"{judge}-a", 4), (f"{judge}-z", 3)]
    assert not Score.objects.of_turns([])


def test_newest_scores_of_a_user_come_first(judge):
    user_id = UserId(uuid.uuid4())
    for value in (1, 2, 3):
        store_score(judge, value, user_id=user_id)
    own = Score.objects.filter(user_id=user_id)
    assert [row.value for row in own.newest_first()[:2]] == [3, 2]
    (line,) = own.summarize()
    figures = ("count", "mean", "standard_deviation", "lowest", "highest")
    assert [line[name] for name in figures] == [3, 2.0, 1.0, 1, 3]


def test_agent_mean_covers_all_its_judges(judge):
    agent = f"of {judge}"
    for name, value in ((judge, 3), (judge, 4), (f"{judge}-z", 8)):
        store_score(name, value, agent=agent)
    recent = Score.objects.filter(judged_at__gte=AT)
    assert recent.stats_by_agent()[agent] == ScoreStats(3, 15, 89)


@pytest.mark.parametrize("value", [-1, 11])
def test_score_beyond_the_scale_is_refused(judge, value):
    with pytest.raises(IntegrityError), transaction.atomic():
        store_score(judge, value)
    assert not Score.objects.filter(judge=judge).exists()


@pytest.mark.parametrize(
    "rating", [{}, {"score": 5, "thumb": "up"}, {"score": 11}, {"thumb": "sid"}]
)
def test_feedback_requires_a_score_or_a_thumb(rating):
    with pytest.raises(IntegrityError), transaction.atomic():
        Feedback.objects.create(
            user_id=uuid.uuid4(),
            turn_id=uuid.uuid4(),
            agent="a",
            created_at=AT,
            updated_at=AT,
            **rating,
        )
